//! The body of a unary request. tonic receives all of it before it calls a handler, so the body
//! itself enforces the idle timeout and takes budget for large messages.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body, codegen::http::Request};

use super::{call::UNCOUNTED_BYTES, connection::Peer, receive::IDLE_MIN_BYTES, state::ServerState};
use crate::{
    error::Error,
    jobs::{AdmissionPermit, admit},
    telemetry,
};

/// A body that fails with `Idle` if its sender is too slow, and with `Exhausted` if the budgets are
/// full. Its permits are released when the handler begins, which takes its own.
struct LimitedBody {
    body: Body,
    state: Arc<ServerState>,
    peer: Option<Peer>,
    permits: Vec<AdmissionPermit>,
    bytes_total: u64,
    /// Bytes received since the timer was set.
    bytes_since_reset: u64,
    timer: Pin<Box<Sleep>>,
}

pub fn limit_body(request: Request<Body>, state: &Arc<ServerState>) -> Request<Body> {
    let (peer, state) = (Peer::of(request.extensions()).cloned(), state.clone());
    let timer = Box::pin(sleep(state.settings.idle_timeout));
    request.map(|body| {
        let (permits, bytes_total, bytes_since_reset) = Default::default();
        Body::new(LimitedBody { body, state, peer, permits, bytes_total, bytes_since_reset, timer })
    })
}

impl LimitedBody {
    fn admit_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.bytes_since_reset += bytes;
        self.bytes_total += bytes;
        if let Some(peer) = &self.peer
            && self.bytes_total > UNCOUNTED_BYTES
        {
            let permit = admit([&peer.budget, &self.state.budget], bytes, 0);
            self.permits.push(permit.inspect_err(telemetry::count_refusal)?);
        }
        Ok(())
    }
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            ready!(self.timer.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::Idle(self.state.settings.idle_timeout).into())));
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = self.admit_bytes(data.len() as u64)
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        if self.bytes_since_reset >= IDLE_MIN_BYTES {
            self.bytes_since_reset = 0;
            let next = Instant::now() + self.state.settings.idle_timeout;
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
