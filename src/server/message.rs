//! The one message of a unary call, which tonic waits for before any handler of ours: an eye on
//! senders that are silent or drip meanwhile.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body, codegen::http::Request};

use super::receive::DRIP_BYTES;
use crate::error::Error;

/// Methods whose messages are timed where they are taken in, or that may be silent.
const STREAMS: [&str; 4] = ["/MsmStream", "/NttStream", "/Put", "/ServerReflectionInfo"];

/// A body that fails with `Idle` where its sender is silent for too long.
struct Timed {
    body: Body,
    idle: Duration,
    /// Since the timer was set.
    bytes: u64,
    timer: Pin<Box<Sleep>>,
}

/// The request with its message timed, if it is to have one.
pub fn timed(request: Request<Body>, idle: Duration) -> Request<Body> {
    if STREAMS.iter().any(|method| request.uri().path().ends_with(method)) {
        return request;
    }
    let timer = Box::pin(sleep(idle));
    request.map(|body| Body::new(Timed { body, idle, bytes: 0, timer }))
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            ready!(self.timer.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::Idle(self.idle).into())));
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        if self.bytes >= DRIP_BYTES {
            self.bytes = 0;
            let next = Instant::now() + self.idle;
            self.timer.as_mut().reset(next.into());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
