//! Tokens of the token file.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use capstan::{
    identity::{BearerToken, TokenEntry, add_token, remove_token},
    server::{AuthSettings, ServerSettings},
    wire::v1,
};
use tempfile::TempDir;
use tonic::{Code, Request};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::identity::{
    caller,
    daemon::{TestServer, compute, reason, store},
    http, known, refusal, start, until_answer,
};

/// A file of tokens.
pub struct Tokens {
    pub path: PathBuf,
    _folder: TempDir,
}

impl Tokens {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, "").unwrap();
        Self { path, _folder: folder }
    }

    /// Adds a token to the file; returns it.
    pub fn add(&self, name: &str, tenant: Option<&str>, expires: Option<SystemTime>) -> String {
        let token = BearerToken::generate().unwrap();
        let (hash, tenant) = (token.hash(), tenant.map(str::to_owned));
        let entry = TokenEntry { name: name.to_owned(), tenant, hash, expires };
        let text = fs::read_to_string(&self.path).unwrap();
        fs::write(&self.path, add_token(&text, &entry).unwrap()).unwrap();
        token.text().to_owned()
    }

    pub fn serve(&self) -> TestServer {
        start(settings(&self.path))
    }
}

pub fn settings(tokens: &Path) -> ServerSettings {
    let auth = AuthSettings { tokens: Some(tokens.to_owned()), ..AuthSettings::default() };
    ServerSettings { auth, ..ServerSettings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_names_the_caller_and_its_tenant() {
    let tokens = Tokens::new();
    let (plain, of_tenant) = (tokens.add("ci", None, None), tokens.add("b", Some("provers"), None));
    let later = SystemTime::now() + Duration::from_secs(3600);
    let expiring = tokens.add("c", None, Some(later));
    let server = tokens.serve();
    let as_caller = async |token: &str| caller(http(&server).token(token)).await.unwrap();
    assert_eq!(as_caller(&plain).await, known("token:ci", "default"));
    assert_eq!(as_caller(&of_tenant).await, known("token:b", "provers"));
    assert_eq!(as_caller(&expiring).await, known("token:c", "default"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_wrong_and_expired_tokens_are_refused() {
    let tokens = Tokens::new();
    let (valid, old) =
        (tokens.add("ci", None, None), tokens.add("old", None, Some(SystemTime::UNIX_EPOCH)));
    let server = tokens.serve();
    assert_eq!(refusal(http(&server)).await, "CREDENTIALS_MISSING");
    assert_eq!(refusal(http(&server).token(old)).await, "CREDENTIALS_EXPIRED");
    let other = BearerToken::generate().unwrap();
    let hash = other.hash().to_string();
    for wrong in [other.text(), &valid[..71], &valid[8..], &valid.to_uppercase(), &hash, "a.b.c"] {
        assert_eq!(refusal(http(&server).token(wrong)).await, "CREDENTIALS_INVALID", "{wrong}");
    }
}

/// A channel that sends no token; the server has not answered on it.
async fn channel(server: &TestServer) -> tonic::transport::Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address));
    endpoint.unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_but_health_asks_for_credentials() {
    let tokens = Tokens::new();
    let token = tokens.add("ci", None, None);
    let server = tokens.serve();
    let channel = channel(&server).await;
    let mut refused = vec![
        compute(&channel).msm(v1::MsmRequest::default()).await.unwrap_err(),
        store(&channel).list(v1::ListRequest::default()).await.unwrap_err(),
        store(&channel).put(tokio_stream::pending::<v1::PutRequest>()).await.unwrap_err(),
    ];
    // The wrong scheme, and the header twice.
    for values in [&[format!("Basic {token}")][..], &vec![format!("Bearer {token}"); 2]] {
        let mut request = Request::new(v1::ListRequest::default());
        for value in values {
            request.metadata_mut().append("authorization", value.parse().unwrap());
        }
        refused.push(store(&channel).list(request).await.unwrap_err());
    }
    for status in &refused {
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
        assert!(reason(status).starts_with("CREDENTIALS_"), "{status:?}");
        assert!(!status.message().contains(&token), "{status:?}");
    }
    let check = HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(check.into_inner().status(), ServingStatus::Serving);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_revoked_stops_working() {
    let tokens = Tokens::new();
    let (kept, revoked) = (tokens.add("kept", None, None), tokens.add("revoked", None, None));
    let server = tokens.serve();
    let client = http(&server).token(revoked.as_str()).connect().await.unwrap();
    let text = fs::read_to_string(&tokens.path).unwrap();
    // An entry that is wrong does not keep the revoked token in use.
    let wrong = "\n[[tokens]]\nname = \"wrong\"\nsha256 = \"0\"\n";
    fs::write(&tokens.path, remove_token(&text, "revoked").unwrap() + wrong).unwrap();
    // Noticed without a request to reload.
    until_answer("revoke", &http(&server).token(revoked), Err("CREDENTIALS_INVALID")).await;
    let refused = client.info().await.unwrap_err();
    assert_eq!(refused.reason_text(), "CREDENTIALS_INVALID", "on an open connection");
    assert_eq!(caller(http(&server).token(kept)).await.unwrap().0, "token:kept");
}

/// The health service needs no credentials, so its messages must be small.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_send_a_large_message_to_the_health_service() {
    let server = Tokens::new().serve();
    let mut health = HealthClient::new(channel(&server).await);
    let request = HealthCheckRequest { service: "s".repeat(1 << 20) };
    let refused = health.check(request).await.expect_err("is too large");
    assert_eq!(&*reason(&refused), "TENANT_UNKNOWN", "{refused}");
    let request = HealthCheckRequest { service: String::new() };
    health.check(request).await.expect("a probe is answered");
}
