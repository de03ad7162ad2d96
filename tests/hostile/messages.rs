//! Messages that stall.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use capstan::server::ServerSettings;
use http_body::{Body, Frame};
use tokio::task::JoinSet;
use tonic::Status;

use crate::{
    daemon::{client_without_deadlines, until_idle, until_load},
    table::{World, settings},
};

/// A body that yields some bytes and then stalls.
pub struct StallingBody(pub Option<Bytes>);

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
    // Some frames may be on their way.
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

/// Health checks need no credentials, so they have little memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_probes_of_strangers_take_nothing_from_callers() {
    let idle_timeout = Duration::from_secs(24 * 3600);
    let world = World::new(ServerSettings { idle_timeout, ..settings() }).await;
    let (clients, calls_of_client, metadata) = (3, 60, "x".repeat(12_000));
    let mut calls = JoinSet::new();
    for _ in 0..clients {
        let (client, origin) = client_without_deadlines(world.daemon.address);
        for _ in 0..calls_of_client {
            let request = http::Request::post(format!("{origin}grpc.health.v1.Health/Check"))
                .header("content-type", "application/grpc")
                .header("x-large", &metadata)
                .body(tonic::body::Body::new(StallingBody(Some(vec![0; 3].into()))))
                .expect("a request");
            let client = client.clone();
            calls.spawn(async move { client.request(request).await });
        }
    }
    // Those of a connection would need 720 KB of 32 KiB, and none of the others ends.
    let refused = calls.join_next().await.expect("calls").expect("no panic").expect("an answer");
    assert_eq!(refused.headers()["grpc-status"], "8");
    until_idle(&world.channel, "probes of strangers").await;
    calls.shutdown().await;
    world.assert_healthy("probes of strangers").await;
}
