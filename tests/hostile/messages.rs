//! Messages that stall.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use capstan::server::ServerSettings;
use http_body::{Body, Frame};
use tonic::Status;

use crate::{
    daemon::{client_without_deadlines, until_idle, until_load},
    table::{World, settings},
};

/// A body that yields some bytes and then stalls.
struct StallingBody(Option<Bytes>);

impl Body for StallingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

/// Sends a part of a message to a method, waits until it is counted, and leaves.
async fn assert_counted(method: &str) {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(ServerSettings { idle_timeout, ..settings() }).await;
    let (client, origin) = client_without_deadlines(world.daemon.address);
    let (received, announced) = (300_000, 500_000_u32);
    let mut bytes = vec![0];
    bytes.extend(announced.to_be_bytes());
    bytes.resize(received, 0);
    let request = http::Request::post(format!("{origin}capstan.v1.{method}"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(StallingBody(Some(bytes.into()))))
        .expect("a request");
    let call = tokio::spawn(async move { client.request(request).await });
    // The first bytes of a message are not counted.
    let counted = received as u64 - (64 << 10);
    until_load(&world.channel, method, |load| load.bytes_in_flight >= counted).await;
    call.abort();
    until_idle(&world.channel, method).await;
    world.assert_healthy(method).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_received_part_of_a_message_counts_as_in_flight() {
    assert_counted("Compute/Msm").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_message_of_a_stream_counts_as_in_flight() {
    for method in ["Compute/Run", "Compute/MsmStream", "Store/Put"] {
        assert_counted(method).await;
    }
}
