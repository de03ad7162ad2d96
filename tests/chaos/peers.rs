//! Peers that send no calls: idle ones, and hostile ones.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
/// The fields of a request of `GetInfo`, in HPACK: POST, http, an authority, the path
/// and the type of the content.
const HEADERS: &[u8] =
    b"\x83\x86\x41\x01x\x44\x19/capstan.v1.Admin/GetInfo\x5f\x10application/grpc";

/// Peers come from several addresses, so that the limit of one address does not decide.
pub const ADDRESSES: u8 = 8;

/// What a peer does after it has connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Completes the handshake and is idle.
    Idle,
    Silent,
    /// The beginning of a TLS handshake.
    HalfHello,
    Garbage,
    HalfPreface,
    /// The header of a frame whose content never comes.
    HalfFrame,
    /// A block of headers that never ends.
    StalledHeaders,
    /// Requests that are reset at once (CVE-2023-44487).
    Resets,
    Pings,
    Settings,
    /// Opens as many streams as it may, and ends none.
    OpenStreams,
}

pub const HOSTILE: [Peer; 10] = [
    Peer::Silent,
    Peer::HalfHello,
    Peer::Garbage,
    Peer::HalfPreface,
    Peer::HalfFrame,
    Peer::StalledHeaders,
    Peer::Resets,
    Peer::Pings,
    Peer::Settings,
    Peer::OpenStreams,
];

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Headers of stream number `number` that end neither the block nor the stream.
fn headers(number: u32, flags: u8) -> Vec<u8> {
    frame(1, flags, 2 * number + 1, HEADERS)
}

impl Peer {
    /// What it sends. `seed` makes garbage.
    fn bytes(self, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut noise = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        let after_handshake = |frames: Vec<u8>| [PREFACE, &SETTINGS, &frames].concat();
        match self {
            Self::Silent => Vec::new(),
            Self::Idle => after_handshake(Vec::new()),
            Self::HalfHello => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            Self::Garbage => (0..2000).map(&mut noise).collect(),
            Self::HalfPreface => PREFACE[..1 + seed as usize % 20].to_vec(),
            Self::HalfFrame => after_handshake(vec![0, 0x40, 0, 0, 0, 0]),
            Self::StalledHeaders => after_handshake(headers(0, 0)),
            Self::Resets => after_handshake(
                (0..500)
                    .flat_map(|n| [headers(n, 4), frame(3, 0, 2 * n + 1, &[0, 0, 0, 8])].concat())
                    .collect(),
            ),
            Self::Pings => after_handshake(frame(6, 0, 0, &[7; 8]).repeat(2000)),
            Self::Settings => after_handshake(SETTINGS.repeat(2000)),
            Self::OpenStreams => after_handshake((0..64).flat_map(|n| headers(n, 4)).collect()),
        }
    }

    /// Sends what it has to send. Idle peers complete the handshake.
    async fn act(
        self,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        seed: u64,
    ) -> io::Result<()> {
        // The daemon may close the connection during the write.
        let written = socket.write_all(&self.bytes(seed)).await;
        let flushed = socket.flush().await;
        if self != Self::Idle {
            return Ok(());
        }
        written.and(flushed)?;
        let mut received = Vec::new();
        while !received.windows(9).any(|frame| frame == SETTINGS_ACK) {
            if socket.read_buf(&mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// A connection from one of [`ADDRESSES`].
async fn connect(address: SocketAddr, number: usize) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let from = 2 + number as u8 % ADDRESSES;
    socket.bind(([127, 0, 0, from], 0).into())?;
    socket.connect(address).await
}

/// A connection that is open.
pub enum OpenPeer {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl OpenPeer {
    /// Whether the daemon closes the connection within `patience`.
    pub async fn is_closed_within(&mut self, patience: Duration) -> bool {
        let mut sink = Vec::new();
        match self {
            Self::Plain(socket) => timeout(patience, socket.read_to_end(&mut sink)).await.is_ok(),
            Self::Tls(socket) => timeout(patience, socket.read_to_end(&mut sink)).await.is_ok(),
        }
    }
}

/// Opens peer number `number`, in plain text.
pub async fn open(peer: Peer, address: SocketAddr, number: usize) -> io::Result<OpenPeer> {
    let mut socket = connect(address, number).await?;
    peer.act(&mut socket, number as u64).await?;
    Ok(OpenPeer::Plain(socket))
}

/// Opens peer number `number`, which speaks TLS unless its kind does not.
pub async fn open_tls(
    peer: Peer,
    address: SocketAddr,
    number: usize,
    tls: &TlsConnector,
) -> io::Result<OpenPeer> {
    if matches!(peer, Peer::Silent | Peer::HalfHello | Peer::HalfPreface) {
        return open(peer, address, number).await;
    }
    let socket = connect(address, number).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut socket = tls.connect(name, socket).await?;
    peer.act(&mut socket, number as u64).await?;
    Ok(OpenPeer::Tls(Box::new(socket)))
}

/// Trusts this certificate only.
pub fn connector(certificate_pem: &str) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}
