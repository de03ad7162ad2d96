//! A daemon that stands still for longer than its timeouts, like a virtual machine that is moved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use capstan::{
    client::{Client, UploadKey},
    wire::v1::{
        Chunk, GetRequest, PutRequest, ScalarEncoding, VectorUpload, get_request,
        put_request::Message, store_client::StoreClient,
    },
};
use futures_util::{Stream, StreamExt, stream};
use rustix::process::{Signal, kill_process};
use tokio::{runtime::Runtime, time::sleep};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::chaos::daemon::{DaemonProcess, compute, start, until_idle};

const IDLE_TIMEOUT: &str = "1000";
/// Longer than the timeout.
const STOPPED: Duration = Duration::from_millis(2500);
/// A sleep of the test that takes this much longer may cost its calls the timeout.
const LATE: Duration = Duration::from_millis(200);
const ATTEMPTS: usize = 20;
const PIECE: u64 = 64 << 10;
const PIECES: u64 = 32;

/// Whether the test itself was late, so that the daemon is right to end its calls.
#[derive(Clone, Default)]
struct Lateness(Arc<AtomicBool>);

impl Lateness {
    async fn sleep(&self, duration: Duration) {
        let begun = Instant::now();
        sleep(duration).await;
        if begun.elapsed() > duration + LATE {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn is_late(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sends a vector for three seconds.
fn upload(id: UploadKey, lateness: Lateness) -> impl Stream<Item = PutRequest> + Send {
    let vector = VectorUpload {
        upload_id: id.0.to_vec().into(),
        encoding: ScalarEncoding::U8 as i32,
        count: PIECE * PIECES,
        streams: 1,
    };
    let chunk = |n| {
        let data = vec![1; PIECE as usize].into();
        Message::Chunk(Chunk { offset: n * PIECE, data })
    };
    let messages = [Message::Vector(vector)].into_iter().chain((0..PIECES).map(chunk));
    let messages = messages.map(|message| PutRequest { message: Some(message) });
    stream::iter(messages.collect::<Vec<_>>()).then(move |message| {
        let lateness = lateness.clone();
        async move {
            lateness.sleep(Duration::from_millis(100)).await;
            message
        }
    })
}

/// Reads a vector for three seconds. Returns its bytes.
async fn download(channel: Channel, id: UploadKey, lateness: Lateness) -> Result<u64, Status> {
    let id = Some(get_request::Id::UploadId(id.0.to_vec().into()));
    let get = GetRequest { id, ..GetRequest::default() };
    let mut answers = StoreClient::new(channel).get(get).await?.into_inner();
    let mut bytes = 0;
    while let Some(answer) = answers.message().await? {
        bytes += answer.chunk.expect("always a chunk").data.len() as u64;
        lateness.sleep(Duration::from_millis(300)).await;
    }
    Ok(bytes)
}

/// Stops the daemon in the middle of an upload and of a download of `read`.
///
/// Errors: a call that failed.
async fn call_across_a_pause(
    daemon: &DaemonProcess,
    sent: UploadKey,
    read: UploadKey,
    lateness: &Lateness,
) -> Result<(), String> {
    let connect = async || {
        let endpoint = Endpoint::from_shared(daemon.target()).unwrap();
        endpoint.initial_stream_window_size(1 << 16).connect().await.unwrap()
    };
    let mut store = StoreClient::new(connect().await);
    let messages = upload(sent, lateness.clone());
    let uploading = tokio::spawn(async move { store.put(messages).await.map(drop) });
    let downloading = tokio::spawn(download(connect().await, read, lateness.clone()));
    lateness.sleep(Duration::from_millis(1200)).await;
    let is_early = !uploading.is_finished() && !downloading.is_finished();
    kill_process(daemon.pid(), Signal::STOP).unwrap();
    sleep(STOPPED).await;
    kill_process(daemon.pid(), Signal::CONT).unwrap();
    let (uploaded, downloaded) = (uploading.await.unwrap(), downloading.await.unwrap());
    uploaded.map_err(|status| format!("an upload was given up: {status}"))?;
    let bytes = downloaded.map_err(|status| format!("a response was dropped: {status}"))?;
    assert_eq!(bytes, PIECE * PIECES);
    if is_early { Ok(()) } else { Err("a call ended before the pause".into()) }
}

#[test]
fn clients_are_not_blamed_for_a_pause_of_the_daemon() {
    // The rate is a quarter of what the clients send and read.
    let rate = ["--peer-bytes-per-second-min", "160 KiB"];
    let flags = [&["--idle-timeout-ms", IDLE_TIMEOUT][..], &rate].concat();
    let daemon = start(&flags);
    Runtime::new().unwrap().block_on(async {
        let client: Client = daemon.client().connect().await.unwrap();
        let bytes = vec![1; (PIECE * PIECES) as usize];
        let read = client.put_vector(capstan::client::ScalarInput::Bytes {
            encoding: ScalarEncoding::U8.try_into().unwrap(),
            bytes: &bytes,
        });
        let read = read.await.unwrap();
        for attempt in 1.. {
            let (sent, lateness) = (UploadKey::random().unwrap(), Lateness::default());
            let called = call_across_a_pause(&daemon, sent, read.id, &lateness).await;
            let released = client.release_vector(sent).await;
            let Err(error) = called else {
                released.unwrap();
                break;
            };
            assert!(lateness.is_late() && attempt < ATTEMPTS, "attempt {attempt}: {error}");
            println!("repeated, because the test was late: {error}");
        }
        client.release_vector(read.id).await.unwrap();
        compute(&client).await.unwrap();
        until_idle(&client).await;
    });
    daemon.stop();
}
