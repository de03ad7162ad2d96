//! The context of one call: deadline, logs and metrics, permits.

use std::{
    fmt, mem,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tonic::{Request, Response, Status, metadata::MetadataMap};
use tracing::{
    Instrument, debug_span,
    field::{Empty, display},
};

use super::{
    call_record::{CallName, CallRecord, JobRecorder},
    request_id::RequestId,
    status::{CallError, status_of},
};
use crate::grpc::{
    callers::call_origin::CallOrigin, connections::connection::Peer,
    responses::transport_parts::ResponsePermit, state::ServerState,
};
use crate::{
    buffer::Quota,
    engine::JobControl,
    error::{Error, FieldProblem, Result},
    identity::Caller,
    jobs::{
        AdmissionPermit, AdmittedJob, Budget, JobOwner, JobPermit, JobPriority, JobTicket,
        JobWaker, JobWork, admit, admit_small, check_share,
    },
    store::UploadOwner,
    telemetry::{self, AuditAction},
    tenant::Tenant,
    wire::{PRIORITY_METADATA, decode::VectorUploadHeader},
};

/// Messages up to this many bytes may exceed the budgets, so that `GetInfo` works on a full server:
/// only the tenant's limit on small requests refuses them.
pub const SMALL_MESSAGE_BYTES: u64 = 16 << 10;

/// Responses up to this many bytes are not refused, but counted once the transport has them: a full
/// server still tells what an upload has received.
const SMALL_RESPONSE_BYTES: u64 = 1 << 10;

/// A request extension: when the caller stops waiting.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Instant);

pub struct CallContext {
    pub state: Arc<ServerState>,
    pub started: Instant,
    pub deadline: Option<Instant>,
    pub peer: Peer,
    pub caller: Caller,
    request_id: RequestId,
    pub tenant: Arc<Tenant>,
    tenant_budget: Budget,
    priority: JobPriority,
    /// What the response takes of the budgets.
    response: Arc<Mutex<AdmissionPermit>>,
}

/// Runs `handler` until the call's deadline and records the outcome.
///
/// Errors: those of `handler`; `Deadline`; `Internal` if the listener or a layer is missing.
pub async fn run<M, T>(
    state: &Arc<ServerState>,
    op: &'static str,
    request: Request<M>,
    handler: impl AsyncFnOnce(CallContext, M) -> Result<T, CallError>,
) -> Result<Response<T>, Status> {
    let call = CallContext::new(state, &request).map_err(status_of)?;
    let mut record = CallRecord::new(op, call.name());
    let caller = &call.caller.subject;
    let RequestId { id, trace } = &call.request_id;
    let tenant = &call.tenant.name;
    let request_id = &**id;
    let trace_id = trace.map(|parent| display(parent.trace_id));
    let span = debug_span!("call", op, %caller, %tenant, request_id, trace_id, outcome = Empty);
    #[cfg(feature = "otlp")]
    trace.iter().for_each(|parent| telemetry::continue_trace(&span, parent));
    let run = async move {
        let (deadline, response) = (call.deadline, call.response.clone());
        let work = handler(call, request.into_inner());
        let result = match deadline {
            None => work.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), work)
                .await
                .unwrap_or_else(|_| Err(Error::DEADLINE.into())),
        };
        record.finish(result.as_ref().err());
        let mut answer = result.map(Response::new)?;
        let permit = mem::take(&mut *response.lock());
        if !permit.is_empty() {
            answer.extensions_mut().insert(ResponsePermit { _permit: Arc::new(permit) });
        }
        Ok(answer)
    };
    run.instrument(span).await
}

impl CallContext {
    fn new<T>(state: &Arc<ServerState>, request: &Request<T>) -> Result<Self> {
        let peer = Peer::of(request.extensions()).cloned();
        let peer = peer.ok_or_else(|| Error::internal("the connection has no peer"))?;
        let caller = request.extensions().get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Error::internal("the call has no caller"))?;
        let request_id = request.extensions().get::<RequestId>().cloned();
        let request_id = request_id.ok_or_else(|| Error::internal("the call has no id"))?;
        let deadline = request.extensions().get::<Deadline>().map(|deadline| deadline.0);
        let tenant = request.extensions().get::<Arc<Tenant>>().cloned();
        let tenant = tenant.ok_or_else(|| Error::internal("the call has no tenant"))?;
        let tenant_budget = Budget::tenant(&tenant);
        let priority = priority_of(request.metadata())?;
        let state = state.clone();
        let started = Instant::now();
        let response = Arc::default();
        Ok(Self {
            state,
            started,
            deadline,
            peer,
            caller,
            request_id,
            tenant,
            tenant_budget,
            priority,
            response,
        })
    }

    /// The call's name in the log.
    pub fn name(&self) -> CallName {
        CallName { caller: self.caller.subject.clone(), request_id: self.request_id.id.clone() }
    }

    /// Who makes the call.
    pub fn origin(&self) -> CallOrigin {
        CallOrigin {
            caller: self.caller.subject.clone(),
            tenant: self.tenant.clone(),
            request_id: self.request_id.id.clone(),
            remote: self.peer.remote,
        }
    }

    /// Records the job of this call.
    pub fn recorder(&self) -> JobRecorder {
        JobRecorder { history: self.state.history.clone(), origin: self.origin() }
    }

    /// Writes to the audit log what the caller does to `object`.
    pub fn audit(&self, action: AuditAction, object: fmt::Arguments<'_>) {
        self.origin().audit(action, object);
    }

    /// Writes to the audit log that the caller uses what is stored under `id`. `kind` is `bases`,
    /// `matrix`, `vector` or `program`.
    pub fn audit_use(&self, kind: &str, id: &[u8]) {
        if telemetry::is_audited() {
            self.audit(AuditAction::Use, format_args!("{kind} {}", hex::encode(id)));
        }
    }

    pub fn control(&self) -> JobControl {
        JobControl::new(self.deadline)
    }

    /// The owner of the call's jobs.
    pub fn owner(&self) -> JobOwner {
        let (tenant, weight) = (self.tenant.id, self.tenant.weight());
        JobOwner { tenant, weight, priority: self.priority }
    }

    /// Callers behind a proxy share its connection, so only their tenants have budgets.
    fn budgets(&self) -> Vec<&Budget> {
        let of_connection = (!self.caller.is_proxied()).then_some(&self.peer.budget);
        of_connection.into_iter().chain([&self.tenant_budget, &self.state.budget]).collect()
    }

    /// Whose slots the call's uploads and vectors take.
    pub fn upload_owner(&self) -> UploadOwner<'_> {
        let connection = (!self.caller.is_proxied()).then_some(&self.peer.uploads);
        UploadOwner { tenant: &self.tenant, has_others: self.has_others(), connection }
    }

    /// Takes bytes and jobs from the budgets of the connection, the tenant and the server.
    ///
    /// Errors: `Draining`; `Exhausted`; `Deadline` if it has passed already.
    pub fn admit(&self, bytes: u64, jobs: u64) -> Result<AdmissionPermit> {
        self.control().check()?;
        if self.state.drain.is_draining() {
            return Err(Error::Draining);
        }
        self.check_share(bytes, jobs)
            .and_then(|()| admit(&self.budgets(), bytes, jobs))
            .inspect_err(telemetry::count_refusal)
    }

    fn check_share(&self, bytes: u64, jobs: u64) -> Result<()> {
        let own = &self.tenant_budget;
        let server = &self.state.budget;
        check_share(own, server, bytes, jobs, self.has_others())
    }

    /// Whether the server has, or has had, other tenants than that of the call.
    pub fn has_others(&self) -> bool {
        self.state.tenants.are_several()
    }

    /// Whether the caller is an operator: a peer on the administrative socket, if there is one,
    /// else one on the Unix socket, and every caller if `admin_over_tcp` is set.
    pub fn is_operator(&self) -> bool {
        let settings = &self.state.settings;
        match settings.admin_socket {
            Some(_) => self.peer.is_admin,
            None => self.caller.uid().is_some() || settings.admin_over_tcp,
        }
    }

    /// Whether the caller may know what other tenants do.
    pub fn sees_others(&self) -> bool {
        self.is_operator() || !self.has_others()
    }

    /// How much of something is in use, as the caller may know it, if all tenants use `all` and its
    /// own one `own`. What the others use is rounded down to a power of two.
    pub fn visible_use(&self, all: u64, own: u64) -> u64 {
        if self.sees_others() { all } else { own + coarse(all.saturating_sub(own)) }
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

    /// Accepts work that is charged when its time is known.
    ///
    /// Errors: `Exhausted` if the tenant has used up its device time.
    pub fn check_debt(&self) -> Result<()> {
        let paid = self.tenant.device_time.take(Duration::ZERO);
        Ok(paid.map(drop).inspect_err(telemetry::count_refusal)?)
    }

    /// Takes bytes for a message from the budgets, also while the server drains.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_message(&self, bytes: u64) -> Result<AdmissionPermit> {
        let budgets = self.budgets();
        let permit = if bytes <= SMALL_MESSAGE_BYTES {
            let quotas: Vec<_> = budgets.iter().map(|budget| budget.bytes.clone()).collect();
            admit_small(&self.tenant, &quotas, bytes)
        } else {
            self.check_share(bytes, 0).and_then(|()| admit(&budgets, bytes, 0))
        };
        permit.inspect_err(telemetry::count_refusal)
    }

    /// Takes bytes for the response from the budgets, also while the server drains. They are
    /// returned when the transport has dropped its last part, or when the call fails.
    ///
    /// Errors: `Exhausted`.
    pub fn admit_response(&self, bytes: u64) -> Result<()> {
        if bytes > SMALL_RESPONSE_BYTES {
            let permits = || -> Result<_> {
                self.check_share(bytes, 0)?;
                let unread = self.tenant.unread_bytes.acquire(bytes)?;
                Ok((admit(&self.budgets(), bytes, 0)?, unread))
            };
            let (permit, unread) = permits().inspect_err(telemetry::count_refusal)?;
            self.response.lock().extend(permit.into_iter().chain([unread]));
        }
        Ok(())
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
        let checked = self.too_small_budget(bytes).map(|budget| budget.check_limit(bytes));
        Ok(checked.transpose().inspect_err(telemetry::count_refusal).map(drop)?)
    }

    /// The first budget that could not hold `bytes` if it were empty.
    pub fn too_small_budget(&self, bytes: u64) -> Option<&Quota> {
        let budgets = self.budgets().into_iter();
        budgets.map(|budget| &*budget.bytes).find(|budget| budget.check_limit(bytes).is_err())
    }

    /// Payload bytes that a stream with this header must be admitted for: 0 if its upload exists.
    pub fn unadmitted_payload_bytes(&self, vector: &VectorUploadHeader) -> Result<u64> {
        if self.state.uploads.get(self.tenant.id, vector.id).is_ok() {
            Ok(0)
        } else {
            Ok(vector.bytes()?)
        }
    }
}

/// The priority that the metadata of a call names: `batch`, `normal` or `urgent`.
///
/// Errors: `Invalid` for another word.
fn priority_of(metadata: &MetadataMap) -> Result<JobPriority> {
    match metadata.get(PRIORITY_METADATA).map(|value| value.as_bytes()) {
        None | Some(b"normal") => Ok(JobPriority::Normal),
        Some(b"urgent") => Ok(JobPriority::Urgent),
        Some(b"batch") => Ok(JobPriority::Batch),
        Some(_) => Err(Error::field(PRIORITY_METADATA, FieldProblem::OutOfRange)),
    }
}

/// The greatest power of two that is not above a number; 0 for 0.
pub fn coarse(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |bits| 1 << bits)
}
