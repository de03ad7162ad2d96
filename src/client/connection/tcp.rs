//! Connects to one of the addresses of a host.

use std::{io, net::SocketAddr, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{sleep, timeout},
};
use tonic::codegen::http::Uri;

/// The next address is tried after this time, which RFC 8305 recommends, or at once if an attempt
/// fails.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A connection is probed after this time of silence.
pub const KEEPALIVE: Duration = Duration::from_secs(20);

/// No address has answered within the limit.
#[derive(Debug, thiserror::Error)]
#[error("no response in time")]
pub struct TimedOut;

/// Connects to the host of a target within `limit`.
///
/// Errors: that of the first address that failed, or that the time is over.
pub async fn connect(target: Uri, limit: Duration) -> io::Result<TokioIo<TcpStream>> {
    let connecting = async {
        let host = host_and_port(&target).ok_or(io::ErrorKind::AddrNotAvailable)?;
        connect_to_any(in_turns(lookup_host(host).await?)).await
    };
    let stream = timeout(limit, connecting)
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, TimedOut))??;
    stream.set_nodelay(true)?;
    set_socket_keepalive(&stream, true)?;
    set_tcp_keepidle(&stream, KEEPALIVE)?;
    Ok(TokioIo::new(stream))
}

/// Whether the server of a target uses TLS, told by its answer to the first bytes of HTTP/2; `None`
/// if it does not tell.
pub async fn uses_tls(target: &str, limit: Duration) -> Option<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // The first byte of a record of TLS, and the highest one of the length of a frame.
    const ALERT: u8 = 0x15;
    const SETTINGS: u8 = 0;
    let probe = async {
        let target = target.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let stream = connect(target, limit).await?.into_inner();
        stream.writable().await?;
        let _sent = stream.try_write(PREFACE)?;
        let mut first = [0];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut first) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(|length| first[..length].first().copied()),
            }
        }
    };
    let answer: io::Result<Option<u8>> = timeout(limit, probe).await.ok()?;
    match answer.ok()?? {
        ALERT => Some(true),
        SETTINGS => Some(false),
        _ => None,
    }
}

/// The host of a URL, an IPv6 address without brackets, and its port; `None` if there is no host.
pub fn host_and_port(target: &Uri) -> Option<(&str, u16)> {
    let default = if target.scheme_str() == Some("https") { 443 } else { 80 };
    Some((target.host()?.trim_matches(['[', ']']), target.port_u16().unwrap_or(default)))
}

/// The addresses of both families in turns, in the system's order otherwise.
fn in_turns(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut ordered = Vec::new();
    let (mut same, mut other) = (0, 0);
    for address in addresses {
        let is_same = ordered
            .first()
            .is_none_or(|(_, first): &(usize, SocketAddr)| first.is_ipv4() == address.is_ipv4());
        let place = if is_same { &mut same } else { &mut other };
        ordered.push((2 * *place + usize::from(!is_same), address));
        *place += 1;
    }
    ordered.sort_by_key(|(place, _)| *place);
    ordered.into_iter().map(|(_, address)| address).collect()
}

/// Connects to the address that answers first. Later ones are tried while earlier ones are silent.
async fn connect_to_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let (mut waiting, mut attempts) = (addresses.into_iter(), FuturesUnordered::new());
    let mut first_error = None;
    loop {
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => {
                let without_address = || io::Error::other("the name has no address");
                return Err(first_error.unwrap_or_else(without_address));
            }
            None => {}
        }
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => _ = first_error.get_or_insert(error),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// Shorter than the system's time for an attempt, and longer than any other wait.
    const HANGING: Duration = Duration::from_secs(60);

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn the_next_address_is_tried_while_an_earlier_one_is_silent() {
        let full = TcpSocket::new_v4().unwrap();
        full.bind(loopback()).unwrap();
        let full = full.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        let mut unaccepted = Vec::new();
        while let Ok(opened) = timeout(Duration::from_secs(1), TcpStream::connect(silent)).await {
            unaccepted.push(opened.unwrap());
        }
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let good = listener.local_addr().unwrap();
        // Bound, so that no other process listens there.
        let refusing_socket = TcpSocket::new_v4().unwrap();
        refusing_socket.bind(loopback()).unwrap();
        let refusing = refusing_socket.local_addr().unwrap();
        for addresses in [vec![silent, good], vec![silent, silent, refusing, good]] {
            let connected = timeout(HANGING, connect_to_any(addresses)).await.unwrap().unwrap();
            assert_eq!(connected.peer_addr().unwrap(), good);
        }
        let error = connect_to_any(vec![refusing, refusing]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect_to_any(Vec::new()).await.is_err());
    }

    #[test]
    fn families_take_turns_and_hosts_have_no_brackets() {
        let [a, b, c, d, e] = ["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4", "127.0.0.1:5"]
            .map(|text| text.parse::<SocketAddr>().unwrap());
        assert_eq!(in_turns([a, b, c, d, e].into_iter()), [a, d, b, e, c]);
        assert_eq!(in_turns([d, a, b].into_iter()), [d, a, b]);
        let host = |text: &str| {
            let uri = text.parse().unwrap();
            host_and_port(&uri).map(|(host, port)| format!("{host} {port}"))
        };
        assert_eq!(host("https://[::1]").as_deref(), Some("::1 443"));
        assert_eq!(host("http://a.example:7").as_deref(), Some("a.example 7"));
        assert_eq!(host("/path"), None);
    }
}
