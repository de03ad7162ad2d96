//! Servers that ask for no credentials, and peers on the Unix socket, who need none.

use std::fs;

use capstan::{
    client::{Client, ScalarEncoding, UploadKey, VectorInfo},
    server::{AuthSettings, Engines, ProxySettings, ServeError, Server, ServerSettings},
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Request, Status, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::identity::{
    caller, caller_of,
    daemon::{admin, compute, messages, reason, store},
    http, known, refusal, start,
    tokens::Tokens,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_over_tcp_are_anonymous_if_nothing_is_configured() {
    let server = start(ServerSettings::default());
    assert_eq!(caller(http(&server)).await.unwrap(), known("anonymous", "default"));
    assert_eq!(caller(http(&server).token("ignored")).await.unwrap().0, "anonymous");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_on_the_unix_socket_is_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, tokens) = (folder.path().join("capstan.sock"), folder.path().join("tokens.toml"));
    fs::write(&tokens, "").unwrap();
    let auth = AuthSettings { tokens: Some(tokens), ..AuthSettings::default() };
    let unix_socket = Some(socket.clone());
    let server = start(ServerSettings { unix_socket, auth, ..ServerSettings::default() });
    let uid = rustix::process::getuid().as_raw();
    let local = || Client::builder(format!("unix:{}", socket.display())).connections(1);
    let expected = known(&format!("uid:{uid}"), "default");
    assert_eq!(caller(local()).await.unwrap(), expected);
    assert_eq!(caller(local().token("ignored")).await.unwrap(), expected);
    assert_eq!(refusal(http(&server)).await, "CREDENTIALS_MISSING");
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
}

#[tokio::test]
async fn other_hosts_are_not_served_by_accident() {
    let settings = ServerSettings { listen: Some(([0; 4], 0).into()), ..ServerSettings::default() };
    let engines = || Engines::cpu(1, "a test").unwrap();
    let refused = Server::bind(settings.clone(), engines()).await.err();
    assert!(matches!(refused, Some(ServeError::Exposed)), "{refused:?}");
    assert!(Server::bind(ServerSettings { insecure: true, ..settings }, engines()).await.is_ok());
}

#[tokio::test]
async fn clients_send_no_token_in_plain_text_to_other_hosts() {
    // Refused before a connection is attempted: the address is not routed.
    let error = caller(Client::builder("http://192.0.2.1:1").token("sesame")).await.unwrap_err();
    assert!(error.to_string().contains("plain text"), "{error}");
    assert!(!error.to_string().contains("sesame"), "{error}");
}

/// The caller may choose the id; otherwise the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_response_has_the_id_of_its_request() {
    let server = start(ServerSettings::default());
    let client = http(&server).connect().await.unwrap();
    let unknown = VectorInfo {
        id: UploadKey::random().unwrap(),
        encoding: ScalarEncoding::Canonical,
        count: 1,
    };
    let refused = client.get_vector(&unknown).await.unwrap_err();
    assert_eq!(refused.request_id().map(str::len), Some(16), "{refused}");
    let mut request = Request::new(v1::GetInfoRequest {});
    request.metadata_mut().insert("x-request-id", "job-7".parse().unwrap());
    let channel = server.channel().await;
    let answer = admin(&channel).get_info(request).await.unwrap();
    assert_eq!(answer.metadata().get("x-request-id").unwrap(), "job-7");
}

/// Settings with which the holder of the token `proxy` names callers.
fn behind_proxy(tokens: &Tokens) -> ServerSettings {
    let proxies = Some(ProxySettings {
        subjects: vec!["token:proxy".into()],
        caller_header: "x-capstan-caller".into(),
        tenant_header: "x-capstan-tenant".into(),
    });
    let auth = AuthSettings { tokens: Some(tokens.path.clone()), proxies, ..Default::default() };
    ServerSettings { auth, ..ServerSettings::default() }
}

/// A request with this token, which names a caller.
fn as_ada<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
    metadata.insert("x-capstan-caller", "ada".parse().unwrap());
    request
}

/// One connection of a proxy carries calls of several callers, each with its tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_names_the_caller_of_each_call() {
    let tokens = Tokens::new();
    let (proxy, other) = (tokens.add("proxy", None, None), tokens.add("other", None, None));
    let server = start(behind_proxy(&tokens));
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let ask = async |token: &str, headers: &[(&'static str, &str)]| {
        let mut request = Request::new(v1::GetInfoRequest {});
        let metadata = request.metadata_mut();
        metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
        for (name, value) in headers {
            metadata.insert(*name, value.parse().unwrap());
        }
        let info = admin(&channel).get_info(request).await?.into_inner();
        Ok::<_, Status>(caller_of(&info))
    };
    let ada = [("x-capstan-caller", "ada"), ("x-capstan-tenant", "a")];
    assert_eq!(ask(&proxy, &ada).await.unwrap(), known("proxied:ada", "a"));
    let bob = [("x-capstan-caller", "bob")];
    assert_eq!(ask(&proxy, &bob).await.unwrap(), known("proxied:bob", "default"));
    assert_eq!(ask(&proxy, &[]).await.unwrap_err().code(), Code::Unauthenticated);
    // Nobody else may name callers.
    assert_eq!(ask(&other, &ada).await.unwrap(), known("token:other", "default"));
}

/// Callers behind a proxy share its connection, so none may be refused because of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_a_connection_do_not_hold_for_callers_behind_a_proxy() {
    const BYTES: u64 = 128 << 10;
    let tokens = Tokens::new();
    let (proxy, other) = (tokens.add("proxy", None, None), tokens.add("other", None, None));
    let connection_bytes_in_flight_max = BYTES - 1;
    let limits = ServerSettings { connection_uploads_max: 1, ..behind_proxy(&tokens) };
    let server = start(ServerSettings { connection_bytes_in_flight_max, ..limits });
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let zeros = || vec![0; BYTES as usize];
    let put = async |token: &str, bytes: u64| {
        let vector = messages::new_vector(v1::ScalarEncoding::U8, bytes);
        let put = messages::put_vector(vector, vec![messages::chunk(0, vec![0; bytes as usize])]);
        store(&channel).put(as_ada(token, stream::iter(put))).await.map(drop)
    };
    let transform = async |token: &str| {
        let row = messages::scalars(v1::ScalarEncoding::Canonical, zeros());
        let ntt = messages::ntt(messages::ntt_spec(12), row);
        compute(&channel).ntt(as_ada(token, ntt)).await.map(drop)
    };
    put(&proxy, BYTES).await.unwrap();
    put(&proxy, 1).await.unwrap();
    transform(&proxy).await.unwrap();
    for refused in [put(&other, BYTES).await, transform(&other).await] {
        assert_eq!(reason(&refused.unwrap_err()), "CONNECTION_BYTES");
    }
    put(&other, 1).await.unwrap();
    assert_eq!(reason(&put(&other, 1).await.unwrap_err()), "CONNECTION_UPLOADS");
}

/// So may those who check the health of the server behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_checks_behind_a_proxy_do_not_share_the_limit_of_a_connection() {
    let tokens = Tokens::new();
    let proxy = tokens.add("proxy", None, None);
    let server = start(behind_proxy(&tokens));
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    for is_proxy in [false, true] {
        let channel = endpoint.connect().await.unwrap();
        if is_proxy {
            admin(&channel).get_info(as_ada(&proxy, v1::GetInfoRequest {})).await.unwrap();
        }
        let mut watches = Vec::new();
        for _ in 0..20 {
            let request = HealthCheckRequest::default();
            watches.push(HealthClient::new(channel.clone()).watch(request).await);
        }
        let refused = watches.iter().filter(|watch| watch.is_err()).count();
        assert_eq!(refused > 0, !is_proxy, "{refused} of 20 are refused");
    }
}
