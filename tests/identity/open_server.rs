//! Servers that ask for no credentials, and peers on the Unix socket, who need none.

use std::fs;

use capstan::{
    client::Client,
    server::{AuthSettings, Engines, ServeError, Server, ServerSettings},
};

use crate::{caller, http, known, refusal, start};

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
    let auth = AuthSettings { tokens: Some(tokens), jwt: None };
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
