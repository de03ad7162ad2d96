//! Answers that are still being sent when the server drains.

use std::time::Duration;

use capstan::{server::ServerSettings, wire::v1};
use futures_util::stream;
use tonic::transport::Endpoint;

use crate::daemon::{TestServer, compute, messages};

const LG_N: u32 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_waits_for_slow_readers() {
    let minute = Duration::from_secs(60);
    let limits =
        ServerSettings { idle_timeout: minute, drain_grace: minute, ..ServerSettings::default() };
    let daemon = TestServer::start(limits);
    let endpoint = Endpoint::from_shared(format!("http://{}", daemon.address)).unwrap();
    // Small windows, so that the transport buffers little ahead of the reader.
    let endpoint = endpoint.initial_stream_window_size(1 << 16);
    let channel = endpoint.initial_connection_window_size(1 << 16).connect().await.unwrap();
    let vector = messages::vector(&messages::id(), v1::ScalarEncoding::Canonical, 1 << LG_N);
    let chunks = (0..1 << (LG_N - 10)).map(|i| messages::chunk(i << 15, vec![0; 1 << 15]));
    let messages = messages::ntt_stream(messages::ntt_spec(LG_N), vector, chunks.collect());
    let rows = compute(&channel).ntt_stream(stream::iter(messages)).await.unwrap();
    daemon.drainer.drain(None);
    // Longer than a draining server waits for idle connections.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (mut rows, mut bytes, mut summary) = (rows.into_inner(), 0, false);
    while let Some(message) = rows.message().await.expect("the whole answer arrives") {
        match message.message {
            Some(v1::ntt_stream_response::Message::Chunk(chunk)) => bytes += chunk.data.len(),
            other => summary |= other.is_some(),
        }
    }
    assert_eq!((bytes, summary), (32 << LG_N, true));
    daemon.ended().await.expect("the server ends without an error");
}
