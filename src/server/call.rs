//! One call: its deadline, its place in logs and metrics, its permits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Request, Response, Status};
use tracing::{Instrument, debug_span};

use super::{State, connection::Peer, deadline::Deadline, observe};
use crate::{
    buffer::Arrival,
    engine::Control,
    error::{Error, Result},
    jobs::{Budget, Permit, admit},
    telemetry,
    wire::decode::VectorUpload,
};

/// A call under way.
pub struct Call {
    /// The server.
    pub state: Arc<State>,
    /// When it began.
    pub begun: Instant,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    peer: Peer,
}

impl Call {
    /// Reads deadline and peer off a request.
    ///
    /// Errors: `Internal` where the listener gave no peer.
    pub fn new<T>(state: &Arc<State>, request: &Request<T>) -> Result<Self> {
        let peer = Peer::of(request.extensions()).cloned();
        let peer = peer.ok_or_else(|| Error::Internal("a connection without a peer".into()))?;
        let deadline = request.extensions().get::<Deadline>().map(|deadline| deadline.0);
        Ok(Self { state: state.clone(), begun: Instant::now(), deadline, peer })
    }

    /// A control with the call's deadline.
    pub fn control(&self) -> Control {
        Control::new(self.deadline)
    }

    /// How long the call had to wait for a payload to be there.
    pub fn waited_for(&self, arrival: &Arrival) -> Duration {
        arrival.waited_since(self.begun)
    }

    /// True for a caller on the Unix socket.
    pub fn is_local(&self) -> bool {
        self.peer.local
    }

    /// Takes bytes and jobs from the connection's and the server's budgets.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` where it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<Permit> {
        self.control().check()?;
        self.state.drain.check()?;
        let budgets: [&Budget; 2] = [&self.peer.budget, &self.state.budget];
        admit(budgets, bytes, jobs).inspect_err(telemetry::refused)
    }

    /// Refuses for good what no waiting makes fit: a request is admitted in parts, each of which
    /// may fit alone. `bytes` are the connection's own, payload included.
    ///
    /// Errors: `Exhausted` without a time to retry.
    pub fn check_fits(&self, bytes: u64) -> Result<()> {
        let budgets = [&self.peer.budget, &self.state.budget];
        budgets
            .iter()
            .try_for_each(|budget| budget.bytes.check_fits(bytes))
            .inspect_err(telemetry::refused)
    }

    /// Bytes that a stream of this header would be admitted for: none where its upload is there.
    ///
    /// Errors: `Invalid` where they cannot be counted.
    pub fn payload_bytes(&self, vector: &VectorUpload) -> Result<u64> {
        if self.state.uploads.get(vector.id).is_ok() { Ok(0) } else { vector.bytes() }
    }

    /// Runs a handler's work against the deadline and records how it ended.
    ///
    /// Errors: the work's; `Deadline`.
    pub async fn run<T>(
        &self,
        op: &'static str,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        let run = async {
            let mut record = observe::Record::new(op);
            let result = match self.deadline {
                None => work.await,
                Some(deadline) => tokio::time::timeout_at(deadline.into(), work)
                    .await
                    .unwrap_or_else(|_| Err(Error::Deadline.into())),
            };
            record.finish(result.as_ref().err());
            result.map(Response::new)
        };
        run.instrument(debug_span!("call", op)).await
    }
}
