//! Graceful shutdown: refuse new work, finish accepted calls within a grace period.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;
use tonic::Status;

use super::{connections::connection_calls::OpenCall, responses::unread_responses::DroppableBody};
use crate::jobs::AdmissionPermit;

#[derive(Default)]
pub struct Drain {
    /// The grace period, once draining has begun.
    grace: watch::Sender<Option<Duration>>,
    calls: Arc<CallsInProgress>,
}

#[derive(Default)]
struct CallsInProgress {
    open: AtomicU64,
    ended: tokio::sync::Notify,
}

/// Counts a call as in progress until it is dropped.
pub struct CallGuard(Arc<CallsInProgress>);

/// A response body. Its call is in progress until the transport has all of it.
pub struct TrackedBody {
    pub body: DroppableBody,
    /// `Some` if a drain waits for this call.
    pub _call: Option<CallGuard>,
    /// Keeps the connection from being idle.
    pub _open: Option<OpenCall>,
    /// For the memory of the open call.
    pub _memory: AdmissionPermit,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }
}

impl Drain {
    /// Begins to drain. If draining has begun already, the first grace period holds.
    pub fn begin(&self, grace: Duration) {
        self.grace.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert(grace);
            is_first
        });
    }

    pub fn is_draining(&self) -> bool {
        self.grace.borrow().is_some()
    }

    pub fn begin_call(&self) -> CallGuard {
        self.calls.open.fetch_add(1, Ordering::AcqRel);
        CallGuard(self.calls.clone())
    }

    /// Waits until draining begins and returns the grace period.
    pub async fn wait_until_begun(&self) -> Duration {
        let mut grace = self.grace.subscribe();
        let begun = grace.wait_for(Option::is_some).await;
        begun.ok().and_then(|grace| *grace).unwrap_or_default()
    }

    pub async fn wait_for_calls(&self) {
        loop {
            let ended = self.calls.ended.notified();
            if self.calls.open.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}
