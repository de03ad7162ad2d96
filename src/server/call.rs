//! One call: its deadline, its place in logs and metrics, its permits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use super::{State, connection::Peer, observe};
use crate::{
    engine::Control,
    error::{Error, Result},
    jobs::{Budget, Permit, admit},
    wire::decode::VectorUpload,
};

/// tonic answers an expired `grpc-timeout` with CANCELLED; ours fires this much earlier, with the
/// right status.
const DEADLINE_MARGIN: Duration = Duration::from_millis(5);

/// A call under way.
pub struct Call {
    /// The server.
    pub state: Arc<State>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    peer: Peer,
}

impl Call {
    /// Reads deadline and peer off a request.
    ///
    /// Errors: `Internal` where the listener gave no peer.
    pub fn new<T>(state: &Arc<State>, request: &Request<T>) -> Result<Self> {
        Self::from_parts(state, request.metadata(), request.extensions())
    }

    fn from_parts(
        state: &Arc<State>,
        metadata: &MetadataMap,
        extensions: &Extensions,
    ) -> Result<Self> {
        let peer = Peer::of(extensions).cloned();
        let peer = peer.ok_or_else(|| Error::Internal("a connection without a peer".into()))?;
        let deadline = timeout_of(metadata).map(|timeout| {
            let margin = DEADLINE_MARGIN.min(timeout / 10);
            Instant::now() + (timeout - margin)
        });
        Ok(Self { state: state.clone(), deadline, peer })
    }

    /// A control with the call's deadline.
    pub fn control(&self) -> Control {
        Control::new(self.deadline)
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
        admit(budgets, bytes, jobs).inspect_err(observe::refused)
    }

    /// Refuses for good what no waiting makes fit: a request is admitted in parts, each of which may
    /// fit alone. `bytes` are the connection's own, payload included.
    ///
    /// Errors: `Exhausted` without a time to retry.
    pub fn check_fits(&self, bytes: u64) -> Result<()> {
        let budgets = [&self.peer.budget, &self.state.budget];
        budgets
            .iter()
            .try_for_each(|budget| budget.bytes.check_fits(bytes))
            .inspect_err(observe::refused)
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
        let _busy = self.state.drain.begin_call();
        let mut record = observe::Record::new(op);
        let result = match self.deadline {
            None => work.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), work)
                .await
                .unwrap_or_else(|_| Err(Error::Deadline.into())),
        };
        record.finish(result.as_ref().err());
        result.map(Response::new)
    }
}

/// `grpc-timeout`: up to 8 digits and a unit.
fn timeout_of(metadata: &MetadataMap) -> Option<Duration> {
    let value = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}
