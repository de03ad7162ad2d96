//! The context of one call: deadline, logs and metrics, permits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Request, Response, Status};
use tracing::{Instrument, debug_span};

use super::{ServerState, call_record, connection::Peer, deadline::Deadline, status::CallError};
use crate::{
    buffer::UploadBuffer,
    engine::JobControl,
    error::{Error, Result},
    jobs::{AdmissionPermit, Budget, admit},
    telemetry,
    wire::decode::VectorUploadHeader,
};

/// A call in progress.
pub struct CallContext {
    /// The server's shared state.
    pub state: Arc<ServerState>,
    /// When the call began.
    pub started: Instant,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    peer: Peer,
}

impl CallContext {
    /// Takes the deadline and the peer from a request's extensions.
    ///
    /// Errors: `Internal` if the listener set no peer.
    pub fn new<T>(state: &Arc<ServerState>, request: &Request<T>) -> Result<Self> {
        let peer = Peer::of(request.extensions()).cloned();
        let peer = peer.ok_or_else(|| Error::Internal("the connection has no peer".into()))?;
        let deadline = request.extensions().get::<Deadline>().map(|deadline| deadline.0);
        Ok(Self { state: state.clone(), started: Instant::now(), deadline, peer })
    }

    /// A control with the call's deadline.
    pub fn control(&self) -> JobControl {
        JobControl::new(self.deadline)
    }

    /// How long the call waited for the payload to arrive.
    pub fn time_to_receive(&self, arrival: &UploadBuffer) -> Duration {
        arrival.receive_time_since(self.started)
    }

    /// True if the caller is connected over the Unix socket.
    pub fn is_local(&self) -> bool {
        self.peer.local
    }

    /// Takes bytes and jobs from the budgets of the connection and of the server.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
        self.control().check()?;
        self.state.drain.check()?;
        let budgets: [&Budget; 2] = [&self.peer.budget, &self.state.budget];
        admit(budgets, bytes, jobs).inspect_err(telemetry::count_refusal)
    }

    /// Checks that `bytes`, all that the request needs, fit in the empty budgets. Each part is
    /// admitted separately and may fit alone.
    ///
    /// Errors: `Exhausted` without `retry_after`.
    pub fn check_fits(&self, bytes: u64) -> Result<()> {
        let budgets = [&self.peer.budget, &self.state.budget];
        budgets
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

    /// Runs a handler's work until the deadline and records the outcome.
    ///
    /// Errors: those of `work`; `Deadline`.
    pub async fn run<T>(
        &self,
        op: &'static str,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<Response<T>, Status> {
        let run = async {
            let mut record = call_record::CallRecord::new(op);
            let result = match self.deadline {
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
}
