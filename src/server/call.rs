//! The context of one call: deadline, logs and metrics, permits.

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status};
use tracing::{Instrument, debug_span};

use super::{call_record::CallRecord, connection::Peer, state::ServerState, status::CallError};
use crate::{
    engine::JobControl,
    error::{Error, Result},
    jobs::{AdmissionPermit, AdmittedJob, Budget, JobTicket, JobWaker, JobWork, admit},
    telemetry,
    wire::decode::VectorUploadHeader,
};

/// Bytes of a message that need no budget, so that `GetInfo` works on a full server.
pub const UNCOUNTED_BYTES: u64 = 16 << 10;

/// A request extension: when the caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Instant);

pub struct CallContext {
    pub state: Arc<ServerState>,
    pub started: Instant,
    pub deadline: Option<Instant>,
    pub peer: Peer,
}

/// Runs `handler` until the call's deadline and records the outcome.
///
/// Errors: those of `handler`; `Deadline`; `Internal` if the listener set no peer.
pub async fn run<M, T>(
    state: &Arc<ServerState>,
    op: &'static str,
    request: Request<M>,
    handler: impl AsyncFnOnce(CallContext, M) -> Result<T, CallError>,
) -> Result<Response<T>, Status> {
    let call = CallContext::new(state, &request)?;
    let run = async {
        let mut record = CallRecord::new(op);
        let deadline = call.deadline;
        let work = handler(call, request.into_inner());
        let result = match deadline {
            None => work.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), work)
                .await
                .unwrap_or_else(|_| Err(Error::Deadline.into())),
        };
        record.finish(result.as_ref().err());
        result.map(Response::new).map_err(Status::from)
    };
    run.instrument(debug_span!("call", op)).await
}

impl CallContext {
    fn new<T>(state: &Arc<ServerState>, request: &Request<T>) -> Result<Self> {
        let peer = Peer::of(request.extensions()).cloned();
        let peer = peer.ok_or_else(|| Error::Internal("the connection has no peer".into()))?;
        let deadline = request.extensions().get::<Deadline>().map(|deadline| deadline.0);
        Ok(Self { state: state.clone(), started: Instant::now(), deadline, peer })
    }

    pub fn control(&self) -> JobControl {
        JobControl::new(self.deadline)
    }

    fn budgets(&self) -> [&Budget; 2] {
        [&self.peer.budget, &self.state.budget]
    }

    /// Takes bytes and jobs from the budgets of the connection and of the server.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
        self.control().check()?;
        if self.state.drain.is_draining() {
            return Err(Error::Draining);
        }
        admit(self.budgets(), bytes, jobs).inspect_err(telemetry::count_refusal)
    }

    /// Takes bytes for a message from the budgets, also while the server drains.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_message(&self, bytes: u64) -> Result<AdmissionPermit> {
        let bytes = if bytes > UNCOUNTED_BYTES { bytes } else { 0 };
        admit(self.budgets(), bytes, 0).inspect_err(telemetry::count_refusal)
    }

    /// Queues a job at once. Dropping the ticket cancels it.
    pub fn submit<W: JobWork>(
        &self,
        permit: AdmissionPermit,
        work: impl FnOnce(JobWaker) -> W,
    ) -> JobTicket<W::Output> {
        let job = |waker| AdmittedJob { work: work(waker), _permit: permit };
        self.state.scheduler.submit(self.control(), job)
    }

    /// Checks that `bytes`, all that the request needs, fit in the empty budgets. Each part is
    /// admitted separately and may fit alone.
    ///
    /// Errors: `Exhausted` without `retry_after`.
    pub fn check_fits(&self, bytes: u64) -> Result<()> {
        self.budgets()
            .iter()
            .try_for_each(|budget| budget.bytes.check_limit(bytes))
            .inspect_err(telemetry::count_refusal)
    }

    /// Payload bytes that a stream with this header must be admitted for: 0 if its upload exists.
    pub fn unadmitted_payload_bytes(&self, vector: &VectorUploadHeader) -> Result<u64> {
        if self.state.uploads.get(vector.id).is_ok() { Ok(0) } else { vector.bytes() }
    }
}
