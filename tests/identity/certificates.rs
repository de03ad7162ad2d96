//! Client certificates, and the rotation of certificates.

use std::fs;

use capstan::{
    client::{Client, ClientBuilder, ClientError, Code},
    identity::{BearerToken, TokenEntry, add_token},
    server::{
        AuthSettings, CredentialFileProblems, ServerSettings, TlsFiles, check_credential_files,
    },
};
use tempfile::TempDir;

use crate::identity::{
    authority::{Authority, files_in, write_client_ca, write_server},
    caller, caller_of,
    daemon::{TestServer, retry_until_ok},
    known, refusal, start,
};

const ID: &str = "spiffe://example.org/prover";

/// A server with a client authority, and the authority.
struct MutualTls {
    server: TestServer,
    authority: Authority,
    files: TlsFiles,
    _folder: TempDir,
}

impl MutualTls {
    fn start(auth: AuthSettings) -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("a"));
        let files = files_in(folder.path());
        write_server(&files, &authority.server());
        write_client_ca(&files, &authority);
        let settings =
            ServerSettings { tls: Some(files.clone()), auth, ..ServerSettings::default() };
        Self { server: start(settings), authority, files, _folder: folder }
    }

    /// A client that trusts `authority` and has no credentials.
    fn client(&self, authority: &Authority) -> ClientBuilder {
        let target = format!("https://{}", self.server.address);
        Client::builder(target).connections(1).ca_certificate(authority.pem())
    }
}

/// A call over a connection that the server's TLS refuses.
async fn is_refused_by_tls(builder: ClientBuilder) {
    let error = caller(builder).await.expect_err("the handshake fails");
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_names_the_caller() {
    let tls = MutualTls::start(AuthSettings::default());
    let client = || tls.client(&tls.authority);
    let named = tls.authority.spiffe(ID);
    let subject = caller(named.present(client())).await.unwrap();
    assert_eq!(subject, known(&format!("cert:{ID}"), "default"));
    let named = tls.authority.dns("prover.example.org");
    let subject = caller(named.present(client())).await.unwrap();
    assert_eq!(subject, known("cert:prover.example.org", "default"));
    // Ignored: this server accepts no tokens.
    assert!(caller(named.present(client()).token("a")).await.is_ok());
    for unnamed in [tls.authority.certify(vec![]), tls.authority.spiffe("https://a.example")] {
        assert_eq!(refusal(unnamed.present(client())).await, "CREDENTIALS_INVALID");
    }
    is_refused_by_tls(client()).await;
    is_refused_by_tls(Authority::new("another").spiffe(ID).present(client())).await;
    // The same name as the authority's, but another key.
    is_refused_by_tls(Authority::new("a").spiffe(ID).present(client())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tokens_a_certificate_is_optional() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let token = BearerToken::generate().unwrap();
    let (name, tenant) = ("ci".to_owned(), Some("provers".to_owned()));
    let entry = TokenEntry { name, tenant, hash: token.hash(), expires: None };
    fs::write(&path, add_token("", &entry).unwrap()).unwrap();
    let tls = MutualTls::start(AuthSettings { tokens: Some(path), ..AuthSettings::default() });
    let client = || tls.client(&tls.authority);
    let named = tls.authority.spiffe(ID);
    assert_eq!(caller(named.present(client())).await.unwrap().0, format!("cert:{ID}"));
    let by_token = known("token:ci", "provers");
    assert_eq!(caller(client().token(token.text())).await.unwrap(), by_token);
    let both = named.present(client()).token(token.text());
    assert_eq!(caller(both).await.unwrap(), by_token, "the token decides");
    assert_eq!(refusal(client()).await, "CREDENTIALS_MISSING");
    // A wrong token is not excused by a certificate.
    assert_eq!(refusal(named.present(client()).token("a")).await, "CREDENTIALS_INVALID");
    is_refused_by_tls(Authority::new("another").spiffe(ID).present(client())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_rotated_while_connections_stay_open() {
    let tls = MutualTls::start(AuthSettings::default());
    let (old, new) = (&tls.authority, Authority::new("new"));
    let named = old.spiffe(ID);
    let open = named.present(tls.client(old)).connect().await.unwrap();
    write_server(&tls.files, &new.server());
    tls.server.reloader.reload();
    retry_until_ok("present the new certificate", async || {
        caller(named.present(tls.client(&new))).await
    })
    .await;
    is_refused_by_tls(named.present(tls.client(old))).await;
    assert_eq!(caller_of(&open.info().await.unwrap()).0, format!("cert:{ID}"));

    // Clients of the old authority are refused on new connections only.
    write_client_ca(&tls.files, &new);
    tls.server.reloader.reload();
    let renamed = new.spiffe(ID);
    retry_until_ok("accept clients of the new authority", async || {
        caller(renamed.present(tls.client(&new))).await
    })
    .await;
    is_refused_by_tls(named.present(tls.client(&new))).await;
    assert_eq!(caller_of(&open.info().await.unwrap()).0, format!("cert:{ID}"));
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("a"));
    let files = TlsFiles { client_ca: None, ..files_in(folder.path()) };
    write_server(&files, &authority.server());
    // As if the certificate were renewed before its key.
    fs::write(&files.certificate, authority.server().certificate).unwrap();
    let settings = ServerSettings { tls: Some(files), ..ServerSettings::default() };
    let error = check_credential_files(&settings).files.pop().expect("a problem");
    assert!(error.problem.contains("cannot be used with tls_key"), "{error}");
}

#[test]
fn client_authorities_that_sign_nothing_are_refused() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("a"));
    let files = files_in(folder.path());
    write_server(&files, &authority.server());
    let client_ca = files.client_ca.clone().unwrap();
    let settings = ServerSettings { tls: Some(files), ..ServerSettings::default() };
    for text in ["", "sesame", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"] {
        fs::write(&client_ca, text).unwrap();
        let error = check_credential_files(&settings).files.pop().expect("a problem");
        assert_eq!(error.setting, "tls_client_ca", "{error}");
    }
    // One that can be used is enough, as in a bundle of many authorities.
    let broken = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    fs::write(&client_ca, [broken, &authority.pem()].concat()).unwrap();
    let CredentialFileProblems { files, entries } = check_credential_files(&settings);
    assert_eq!((files.len(), entries.len()), (0, 1), "{files:?} {entries:?}");
}

/// The client would ignore its certificate.
#[tokio::test]
async fn clients_refuse_a_certificate_for_a_target_without_tls() {
    let named = Authority::new("a").spiffe(ID);
    for target in ["http://127.0.0.1:1", "unix:/nowhere"] {
        let error = caller(named.present(Client::builder(target))).await.unwrap_err();
        assert!(matches!(error, ClientError::InvalidSetting { .. }), "{error}");
        assert!(error.to_string().contains("client certificate"), "{error}");
    }
}
