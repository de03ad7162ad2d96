//! The context of one call: deadline, logs and metrics, permits.

use std::{sync::Arc, time::Instant};

use tonic::{Request, Response, Status};
use tracing::{Instrument, debug_span};

use super::{call_record::CallRecord, connection::Peer, state::ServerState, status::CallError};
use crate::{
    engine::JobControl,
    error::{Error, Result},
    jobs::{AdmissionPermit, Budget, admit},
    telemetry,
    wire::decode::VectorUploadHeader,
};

/// A request extension: when the caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Instant);

pub struct CallContext {
    pub state: Arc<ServerState>,
    pub started: Instant,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    peer: Peer,
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

    /// True if the caller is connected over the Unix socket.
    pub fn is_local(&self) -> bool {
        self.peer.is_local
    }

    fn budgets(&self) -> [&Budget; 2] {
        [&self.peer.budget, &self.state.budget]
    }

    /// Takes bytes and jobs from the budgets of the connection and of the server.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
        self.control().check()?;
        self.state.drain.check()?;
        admit(self.budgets(), bytes, jobs).inspect_err(telemetry::count_refusal)
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
    ///
    /// Errors: `Invalid` if the number of bytes overflows.
    pub fn unadmitted_payload_bytes(&self, vector: &VectorUploadHeader) -> Result<u64> {
        if self.state.uploads.get(vector.id).is_ok() { Ok(0) } else { vector.bytes() }
    }
}
