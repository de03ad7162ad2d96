//! Unary messages that take their time.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use capstan::server::Settings;
use http_body::{Body, Frame};
use tonic::Status;

use crate::{
    daemon::{settled, timeless, until_load},
    table::{World, settings},
};

/// Some bytes, and no more.
struct Stalls(Option<Bytes>);

impl Body for Stalls {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_come_of_a_message_is_in_flight() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(Settings { idle_timeout, ..settings() }).await;
    let (client, origin) = timeless(world.daemon.address);
    let (came, announced) = (300_000, 500_000_u32);
    let mut bytes = vec![0];
    bytes.extend(announced.to_be_bytes());
    bytes.resize(came, 0);
    let request = http::Request::post(format!("{origin}capstan.v1.Compute/Msm"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(Stalls(Some(bytes.into()))))
        .expect("a request");
    let call = tokio::spawn(async move { client.request(request).await });
    // What came before the free bytes were used up is not counted.
    let counted = came as u64 - (64 << 10);
    let name = "the message is counted";
    until_load(&world.channel, name, |load| load.bytes_in_flight >= counted).await;
    call.abort();
    settled(&world.channel, "a message that stalls").await;
    world.assert_well("a message that stalls").await;
}
