//! The context of one call: deadline, logs and metrics, permits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Request, Response, Status};
use tracing::{Instrument, debug_span};

use super::{
    call_record::CallRecord, caller, connection::Peer, state::ServerState, status::CallError,
};
use crate::{
    engine::JobControl,
    error::{Error, Result},
    jobs::{
        AdmissionPermit, AdmittedJob, Budget, JobOwner, JobPermit, JobPriority, JobTicket,
        JobWaker, JobWork, admit,
    },
    telemetry,
    tenant::Tenant,
    wire::decode::VectorUploadHeader,
};

/// A request extension: when the caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Instant);

pub struct CallContext {
    pub state: Arc<ServerState>,
    pub started: Instant,
    pub deadline: Option<Instant>,
    pub peer: Peer,
    pub tenant: Arc<Tenant>,
    tenant_budget: Budget,
    priority: JobPriority,
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
        let tenant = caller::tenant(state, request.extensions())?;
        peer.join(&tenant).inspect_err(telemetry::count_refusal)?;
        let tenant_budget = Budget::tenant(&tenant);
        let priority = caller::priority(request.metadata())?;
        let (state, started) = (state.clone(), Instant::now());
        Ok(Self { state, started, deadline, peer, tenant, tenant_budget, priority })
    }

    pub fn control(&self) -> JobControl {
        JobControl::new(self.deadline)
    }

    /// The owner of the call's jobs.
    pub fn owner(&self) -> JobOwner {
        let (tenant, weight) = (self.tenant.id, self.tenant.weight());
        JobOwner { tenant, weight, priority: self.priority }
    }

    fn budgets(&self) -> [&Budget; 3] {
        [&self.peer.budget, &self.tenant_budget, &self.state.budget]
    }

    /// Takes bytes and jobs from the budgets of the connection, the tenant and the server.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
        self.control().check()?;
        if self.state.drain.is_draining() {
            return Err(Error::Draining);
        }
        admit(&self.budgets(), bytes, jobs).inspect_err(telemetry::count_refusal)
    }

    /// Accepts a job of `bytes` bytes of working memory, which takes `modelled` by the model.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already; `DeadlineTooEarly`.
    pub fn admit_job(&self, bytes: u64, modelled: Duration) -> Result<JobPermit> {
        let _quotas = self.admit(bytes, 1)?;
        let backlog = self.state.backlog.admit(self.owner(), modelled, self.deadline);
        let backlog = backlog.inspect_err(telemetry::count_refusal)?;
        let device_time = self.tenant.device_time.take(modelled);
        let device_time = device_time.inspect_err(telemetry::count_refusal)?;
        Ok(JobPermit { _quotas, backlog, device_time })
    }

    /// Queues a job at once. Dropping the ticket cancels it.
    pub fn submit<W: JobWork>(
        &self,
        permit: JobPermit,
        work: impl FnOnce(JobWaker) -> W,
    ) -> JobTicket<W::Output> {
        let job = |waker| AdmittedJob::new(work(waker), permit);
        self.state.scheduler.submit(self.owner(), self.control(), job)
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
        if self.state.uploads.get(self.tenant.id, vector.id).is_ok() {
            Ok(0)
        } else {
            vector.bytes()
        }
    }
}
