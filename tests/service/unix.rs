//! The file of the Unix socket.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
};

use capstan::server::{Engines, ServeError, ServerSettings};

use crate::service::daemon::{TestServer, load, unix_channel};

fn engines() -> Engines {
    Engines::cpu(1, "a test").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_has_its_mode_replaces_a_stale_one_and_belongs_to_one_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capstan.sock");
    // Left behind by a server that was killed.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let settings = |unix_mode| ServerSettings {
        unix_socket: Some(path.clone()),
        unix_mode,
        ..ServerSettings::default()
    };
    let daemon = TestServer::with_engines(settings(0o600), engines());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(load(&unix_channel(&path).await).await.connections, 1);
    let second = TestServer::try_start(settings(0o600), engines());
    assert!(matches!(second, Err(ServeError::Listen(_))));
    assert!(path.exists(), "the second server removed the first one's socket");
    load(&unix_channel(&path).await).await;
    tokio::task::spawn_blocking(move || drop(daemon)).await.unwrap();
    assert!(!path.exists());
    let daemon = TestServer::with_engines(settings(0o666), engines());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    drop(daemon);
}

#[test]
fn a_file_that_is_not_a_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, b"data").unwrap();
    let settings = ServerSettings { unix_socket: Some(path.clone()), ..ServerSettings::default() };
    assert!(matches!(TestServer::try_start(settings, engines()), Err(ServeError::Listen(_))));
    assert_eq!(fs::read(&path).unwrap(), b"data");
}
