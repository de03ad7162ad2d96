//! Peers that stall during the TLS handshake or after it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use capstan::{
    client::Client,
    server::{ServerSettings, TlsFiles},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, pem::PemObject},
    },
};

use crate::identity::{
    authority::{Authority, files_in, write_server},
    caller,
    daemon::{TEST_TIMEOUT, TestServer},
    start,
};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(500);

fn serve(authority: &Authority, handshake_timeout: Duration) -> TestServer {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { client_ca: None, ..files_in(folder.path()) };
    write_server(&files, &authority.server());
    start(ServerSettings { tls: Some(files), handshake_timeout, ..ServerSettings::default() })
}

/// Completes the handshake and sends nothing.
async fn handshaken(server: &TestServer, authority: &Authority) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let socket = TcpStream::connect(server.address).await.unwrap();
    let name = server.address.ip().into();
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
}

async fn until_closed(mut socket: impl AsyncReadExt + Unpin) {
    let mut sink = Vec::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_end(&mut sink)).await;
    // A reset counts as well.
    let _end = read.expect("the server closes the connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_silent_after_the_tls_handshake_is_cut_off() {
    let authority = Authority::new("a");
    let server = serve(&authority, HANDSHAKE_TIMEOUT);
    let begun = Instant::now();
    let silent = handshaken(&server, &authority).await;
    assert_eq!(silent.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut half = handshaken(&server, &authority).await;
    // Fails if this thread was slow and the server has closed the connection already.
    let _gone = half.write_all(b"PRI * HTT").await;
    let _gone = half.flush().await;
    until_closed(silent).await;
    until_closed(half).await;
    // A slow machine only delays the cutoff.
    assert!(begun.elapsed() >= HANDSHAKE_TIMEOUT, "cut off before the timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_begins_the_handshake_is_cut_off() {
    let authority = Authority::new("a");
    let server = serve(&authority, HANDSHAKE_TIMEOUT);
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut half = TcpStream::connect(server.address).await.unwrap();
    // The header of a TLS record.
    half.write_all(&[0x16, 3, 1, 2, 0]).await.unwrap();
    until_closed(silent).await;
    until_closed(half).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_handshakes_delay_no_other_connection() {
    let authority = Authority::new("a");
    // Longer than the test: the stalled peers stay.
    let server = serve(&authority, 4 * TEST_TIMEOUT);
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(TcpStream::connect(server.address).await.unwrap());
    }
    let client = Client::builder(format!("https://{}", server.address));
    let client = client.ca_certificate(authority.pem());
    let served = timeout(TEST_TIMEOUT, caller(client)).await.expect("the others do not block it");
    assert_eq!(served.unwrap().0, "anonymous");
    drop(stalled);
}
