//! A daemon that stands still for longer than its timeouts, like a virtual machine that is moved.

use std::time::Duration;

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

use crate::daemon::{Daemon, compute, until_idle};

const IDLE_TIMEOUT: &str = "1000";
/// Longer than the timeout.
const STOPPED: Duration = Duration::from_millis(2500);
const PIECE: u64 = 64 << 10;
const PIECES: u64 = 32;

/// Sends a vector for three seconds.
fn upload(id: UploadKey) -> impl Stream<Item = PutRequest> + Send {
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
    stream::iter(messages.collect::<Vec<_>>()).then(|message| async {
        sleep(Duration::from_millis(100)).await;
        message
    })
}

/// Reads a vector for three seconds. Returns its bytes.
async fn download(channel: Channel, id: UploadKey) -> Result<u64, Status> {
    let id = Some(get_request::Id::UploadId(id.0.to_vec().into()));
    let get = GetRequest { id, ..GetRequest::default() };
    let mut answers = StoreClient::new(channel).get(get).await?.into_inner();
    let mut bytes = 0;
    while let Some(answer) = answers.message().await? {
        bytes += answer.chunk.expect("always a chunk").data.len() as u64;
        sleep(Duration::from_millis(300)).await;
    }
    Ok(bytes)
}

#[test]
fn clients_are_not_blamed_for_a_pause_of_the_daemon() {
    // The rate is a quarter of what the clients send and read.
    let rate = ["--peer-bytes-per-second-min", "160 KiB"];
    let flags = [&["--idle-timeout-ms", IDLE_TIMEOUT][..], &rate].concat();
    let daemon = Daemon::start(&flags);
    Runtime::new().unwrap().block_on(async {
        let client: Client = daemon.client().connect().await.unwrap();
        let connect = async || {
            let endpoint = Endpoint::from_shared(daemon.target.clone()).unwrap();
            endpoint.initial_stream_window_size(1 << 16).connect().await.unwrap()
        };
        let bytes = vec![1; (PIECE * PIECES) as usize];
        let read = client.put_vector(capstan::client::ScalarInput::Bytes {
            encoding: ScalarEncoding::U8.try_into().unwrap(),
            bytes: &bytes,
        });
        let read = read.await.unwrap();
        let sent = UploadKey::random().unwrap();
        let mut store = StoreClient::new(connect().await);
        let uploading = tokio::spawn(async move { store.put(upload(sent)).await.map(drop) });
        let downloading = tokio::spawn(download(connect().await, read.id));
        sleep(Duration::from_millis(1200)).await;
        assert!(!uploading.is_finished() && !downloading.is_finished());
        kill_process(daemon.pid(), Signal::STOP).unwrap();
        sleep(STOPPED).await;
        kill_process(daemon.pid(), Signal::CONT).unwrap();
        uploading.await.unwrap().expect("an upload was given up");
        assert_eq!(downloading.await.unwrap().expect("a response was dropped"), PIECE * PIECES);
        client.release_vector(sent).await.unwrap();
        client.release_vector(read.id).await.unwrap();
        compute(&client).await.unwrap();
        until_idle(&client).await;
    });
    daemon.stop();
}
