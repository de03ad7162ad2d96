//! Readers that stall behind a proxy: other callers are served meanwhile, also over the connection
//! that they share, and the calls of the readers end.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use capstan::wire::v1::{self, admin_client::AdminClient, store_client::StoreClient};
use futures_util::stream;
use tokio::time::{sleep, timeout};
use tonic::{Request, Status, Streaming, transport::Channel};

use crate::{
    proxies::{
        daemon_process::HANGING,
        proxy::{ProxyKind, ProxyProcess},
        site::{DAEMONS, Site},
    },
    rig::messages,
};

const READERS: usize = 8;
const CHUNKS: usize = 160;
const CHUNK_BYTES: usize = 256 << 10;
const ELEMENT_BYTES: usize = 32;
/// Elements that the other caller reads.
const READ: usize = 1 << 10;
/// The daemons give up readers after half of this time.
const WATCHED: Duration = Duration::from_secs(6);
/// A call that nobody delays takes milliseconds.
const PROMPT: Duration = Duration::from_secs(5);
const NAME: &str = "vector";

/// A request to the daemon of `affinity`.
fn request<M>(affinity: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    let affinity = affinity.parse().expect("plain characters");
    request.metadata_mut().insert("capstan-affinity", affinity);
    request
}

/// Waits until the proxy passes calls to every daemon, so that a vector stays where it was put.
async fn until_all_serve(channel: &Channel) {
    let (begun, mut found) = (Instant::now(), HashSet::new());
    for number in 0_u64.. {
        let info = request(&number.to_string(), v1::GetInfoRequest {});
        if let Ok(answer) = AdminClient::new(channel.clone()).get_info(info).await {
            found.extend(answer.metadata().get("capstan-instance").cloned());
        }
        if found.len() == DAEMONS {
            return;
        }
        assert!(begun.elapsed() < HANGING, "{} daemons serve", found.len());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Stores a vector of zeros; returns the request for it.
async fn put_vector(channel: &Channel) -> v1::GetRequest {
    let (id, zeros) = (messages::id(), vec![0; CHUNK_BYTES]);
    let count = CHUNKS * CHUNK_BYTES / ELEMENT_BYTES;
    let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, count as u64);
    let chunk = |i| messages::chunk((i * CHUNK_BYTES) as u64, zeros.clone());
    let put = messages::put_vector(vector, (0..CHUNKS).map(chunk).collect());
    let put = request(NAME, stream::iter(put));
    StoreClient::new(channel.clone()).put(put).await.expect("room for the vector");
    v1::GetRequest { id: Some(v1::get_request::Id::UploadId(id)), ..Default::default() }
}

async fn get(channel: &Channel, get: v1::GetRequest) -> Result<Streaming<v1::GetResponse>, Status> {
    let answer = StoreClient::new(channel.clone()).get(request(NAME, get)).await?;
    Ok(answer.into_inner())
}

/// The number of bytes of a response.
async fn read(mut response: Streaming<v1::GetResponse>) -> Result<usize, Status> {
    let mut bytes = 0;
    while let Some(message) = response.message().await? {
        bytes += message.chunk.map_or(0, |chunk| chunk.data.len());
    }
    Ok(bytes)
}

async fn others_are_served(kind: ProxyKind) {
    let Some(program) = kind.program() else { return };
    let idle_ms = (WATCHED / 2).as_millis().to_string();
    let impatient = [("--idle-timeout-ms", &*idle_ms), ("--peer-bytes-per-second-min", "256 KiB")];
    let site = Site::start_with(kind.name(), &impatient);
    let proxy = ProxyProcess::start(kind, &program, &site);
    let other = site.channel(&proxy.target()).await;
    until_all_serve(&other).await;
    let whole = put_vector(&other).await;
    let mut unread = Vec::new();
    for _ in 0..READERS {
        // HAProxy sends nothing more on a connection while one of its streams stalls.
        let stalled = site.channel(&proxy.target()).await;
        unread.push(get(&stalled, whole.clone()).await.expect("the response begins"));
    }
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        let part = v1::GetRequest { length: READ as u64, ..whole.clone() };
        let answer = async { read(get(&other, part).await?).await };
        let bytes = timeout(PROMPT, answer).await.expect("others are not delayed");
        assert_eq!(bytes.expect("others are served"), READ * ELEMENT_BYTES);
        sleep(Duration::from_millis(50)).await;
    }
    for response in unread {
        let end = timeout(HANGING, read(response)).await.expect("the call ends");
        assert!(end.is_err(), "{kind:?}: all of it, although it was given up: {end:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_behind_envoy_delay_no_others_and_are_given_up() {
    others_are_served(ProxyKind::Envoy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_behind_haproxy_delay_no_others_and_are_given_up() {
    others_are_served(ProxyKind::HaProxy).await;
}
