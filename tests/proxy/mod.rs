//! TCP proxies that cut connections.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(60);
/// More attempts than any test needs.
const ATTEMPTS: usize = 20;

/// Runs `work` through a proxy that cuts connections after `cuts` (see [`Proxy::start`]), and again
/// until a proxy has cut at least `least` of them: if a lane is slow, the others may finish the
/// upload before it reaches its cut.
pub async fn with_broken_connections<T>(
    target: &str,
    cuts: &[Option<u64>],
    least: u32,
    work: impl AsyncFn(&str) -> T,
) -> T {
    for _ in 0..ATTEMPTS {
        let proxy = Proxy::start(target, cuts).await;
        let done = timeout(HANGING, work(&proxy.target)).await.expect("does not hang");
        if proxy.cut() >= least {
            return done;
        }
    }
    panic!("none of {ATTEMPTS} proxies cut {least} connections");
}

struct Proxy {
    target: String,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    /// Forwards to `target`. Connection i is cut after `cuts[i]` bytes towards the server, or never
    /// if that is `None` or past the end of `cuts`.
    async fn start(target: &str, cuts: &[Option<u64>]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = target.trim_start_matches("http://").to_owned();
        let cuts = Mutex::new(cuts.iter().copied().collect::<VecDeque<_>>());
        let cut = Arc::new(AtomicU32::new(0));
        let counted = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let limit = cuts.lock().unwrap().pop_front().flatten();
                let (server, counted) = (server.clone(), counted.clone());
                tokio::spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    forward(client, server, limit, &counted).await;
                });
            }
        });
        Self { target: format!("http://{address}"), cuts: cut }
    }

    /// Number of connections that were cut.
    fn cut(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Forwards until a side ends or the limit is reached. A cut is counted before a peer can see it.
async fn forward(client: TcpStream, server: TcpStream, limit: Option<u64>, cut: &AtomicU32) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        let mut left = limit.unwrap_or(u64::MAX);
        let mut buffer = vec![0; 64 << 10];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match from_client.read(&mut buffer[..most]).await {
                Ok(read) if read > 0 => {
                    left -= read as u64;
                    if to_server.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
        cut.fetch_add(1, Ordering::SeqCst);
    };
    let down = copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = up => {}
        _ = down => {}
    }
}
