//! Uploads in progress, and vectors, which are complete uploads.
//!
//! An upload exists from its first header on. Any number of streams can carry chunks of it, one
//! after another or concurrently. It ends when it is used, released, failed or idle for too long.

mod header;
mod kept;

pub use self::{header::UploadHeader, kept::KeptVectors};

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::StoredObject;
use crate::{
    buffer::{PayloadPool, Quota, QuotaPermit, RegionSlice, UploadBuffer},
    error::{Error, FieldProblem, Limit, Result},
    program::InputSpec,
    sync::Mutex,
    telemetry,
    tenant::{Tenant, TenantId},
    wire::decode::{UploadContent, UploadId, VectorUploadHeader},
};

/// How long an upload without a byte and without a stream is kept.
const EMPTY_TTL: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub enum UploadOutcome {
    /// The vector is complete. The upload itself holds it.
    Vector,
    /// The object is in the store.
    Object(Arc<StoredObject>),
}

pub struct StoredUpload {
    pub header: UploadHeader,
    pub payload: Arc<UploadBuffer>,
    tenant: TenantId,
    streams: Mutex<UploadStreams>,
    outcome: watch::Sender<Option<Result<UploadOutcome>>>,
    _slot: UploadSlot,
}

/// A slot of the tenant and one of the server.
#[derive(Debug)]
pub(super) struct UploadSlot {
    tenant: TenantId,
    _permits: [QuotaPermit; 2],
}

struct UploadStreams {
    open: u32,
    /// Streams that their senders ended properly.
    ended: u32,
    /// Jobs that read the upload.
    uses: u32,
    /// The call that would have ended the upload is gone.
    is_abandoned: bool,
    last_use: Instant,
}

impl UploadStreams {
    fn close(&mut self) {
        self.open -= 1;
        self.last_use = Instant::now();
    }
}

impl StoredUpload {
    fn new(header: UploadHeader, payload: Arc<UploadBuffer>, slot: UploadSlot) -> Self {
        let last_use = Instant::now();
        let streams = UploadStreams { open: 0, ended: 0, uses: 0, is_abandoned: false, last_use };
        let upload = Self {
            header,
            payload,
            tenant: slot.tenant,
            streams: Mutex::new(streams),
            outcome: watch::Sender::new(None),
            _slot: slot,
        };
        upload.conclude_if_complete();
        upload
    }

    /// The header of a vector.
    ///
    /// Errors: `Mismatch` if the upload is of another object.
    pub fn vector(&self) -> Result<&VectorUploadHeader> {
        match &self.header {
            UploadHeader::Vector(vector) => Ok(vector),
            UploadHeader::Object(object) => {
                let held = match object.content {
                    UploadContent::Bases(_) => "an unfinished upload of bases".into(),
                    UploadContent::Matrix(_) => "an unfinished upload of a matrix".into(),
                };
                Err(Error::Mismatch { held, needed: "a vector".into() })
            }
        }
    }

    pub fn begin_stream(self: &Arc<Self>) -> UploadStreamGuard {
        let mut streams = self.streams.lock();
        streams.open += 1;
        streams.is_abandoned = false;
        UploadStreamGuard { upload: self.clone(), is_open: true }
    }

    /// Records that the call that would have ended the upload is gone. Complete or not, the upload
    /// is then kept as long as a broken one, so that the caller can resume.
    pub fn mark_abandoned(&self) {
        let mut streams = self.streams.lock();
        streams.is_abandoned = true;
        streams.last_use = Instant::now();
    }

    /// Sets the outcome. Later calls have no effect.
    pub fn set_outcome(&self, outcome: Result<UploadOutcome>) {
        let failure = outcome.as_ref().err().cloned();
        let is_first = self.outcome.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(outcome);
            is_first
        });
        if let Some(failure) = failure.filter(|_| is_first) {
            self.payload.fail(failure);
        }
    }

    pub async fn concluded(&self) -> Result<UploadOutcome> {
        let mut outcome = self.outcome.subscribe();
        let concluded = outcome.wait_for(Option::is_some).await;
        concluded.ok().and_then(|outcome| outcome.clone()).unwrap_or(Err(Error::Cancelled))
    }

    /// Registers a job that reads the upload, so that a complete vector is not idle.
    pub fn begin_use(self: &Arc<Self>) -> UploadUseGuard {
        self.streams.lock().uses += 1;
        UploadUseGuard { upload: self.clone() }
    }

    /// Writes a chunk and returns how many of its bytes are new.
    ///
    /// Errors: like [`UploadBuffer::write`]; `Invalid` if the payload lies in a region.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64> {
        if self.payload.is_in_region() {
            return Err(Error::field("message.chunk", FieldProblem::OutOfRange));
        }
        let fresh = self.payload.write(offset, bytes)?;
        self.conclude_if_complete();
        Ok(fresh)
    }

    /// Receives what the client has written to a region, and returns how many of these bytes are
    /// new.
    ///
    /// Errors: like [`UploadBuffer::receive_written`]; `Invalid` if the payload lies in no region.
    pub fn receive_written(&self, offset: u64, len: u64) -> Result<u64> {
        if !self.payload.is_in_region() {
            return Err(Error::field("message.written", FieldProblem::OutOfRange));
        }
        let fresh = self.payload.receive_written(offset, len)?;
        self.conclude_if_complete();
        Ok(fresh)
    }

    /// Concludes a complete vector. Objects are concluded by their import job.
    fn conclude_if_complete(&self) {
        if matches!(self.header, UploadHeader::Vector(_)) && self.payload.is_complete() {
            self.set_outcome(Ok(UploadOutcome::Vector));
        }
    }

    fn idle_for(&self, now: Instant) -> Option<Duration> {
        let streams = self.streams.lock();
        // A job must not wait forever on an incomplete upload without streams.
        let used = streams.open > 0 || streams.uses > 0 && self.payload.is_complete();
        (!used).then(|| now.saturating_duration_since(streams.last_use))
    }

    fn ttl(&self, broken_ttl: Duration, vector_ttl: Duration) -> Duration {
        match self.payload.received() {
            _ if self.payload.is_complete() && !self.streams.lock().is_abandoned => vector_ttl,
            0 => broken_ttl.min(EMPTY_TTL),
            _ => broken_ttl,
        }
    }
}

/// A stream that carries chunks of an upload. If it is dropped without [`UploadStreamGuard::end`],
/// the stream broke, and its sender may resume the upload.
pub struct UploadStreamGuard {
    upload: Arc<StoredUpload>,
    is_open: bool,
}

impl UploadStreamGuard {
    pub fn upload(&self) -> &Arc<StoredUpload> {
        &self.upload
    }

    /// Ends the stream properly. If all streams have ended and bytes are missing, the upload fails.
    pub fn end(mut self) {
        self.is_open = false;
        let upload = &self.upload;
        let all_ended = {
            // At once, so that one of two streams that end at the same time sees that both have.
            let mut streams = upload.streams.lock();
            streams.close();
            streams.ended += 1;
            streams.open == 0 && streams.ended >= upload.header.streams()
        };
        if all_ended && !upload.payload.is_complete() {
            let (expected, got) = (upload.payload.len(), upload.payload.received());
            let problem = FieldProblem::Length { expected, got };
            upload.set_outcome(Err(Error::field("chunk", problem)));
        }
    }
}

impl Drop for UploadStreamGuard {
    fn drop(&mut self) {
        if self.is_open {
            let mut streams = self.upload.streams.lock();
            streams.close();
            // If the sender resumes, its streams are counted from zero.
            streams.ended = 0;
        }
    }
}

pub struct UploadUseGuard {
    upload: Arc<StoredUpload>,
}

impl UploadUseGuard {
    pub fn upload(&self) -> &Arc<StoredUpload> {
        &self.upload
    }
}

impl Drop for UploadUseGuard {
    fn drop(&mut self) {
        let mut streams = self.upload.streams.lock();
        streams.uses -= 1;
        streams.last_use = Instant::now();
    }
}

/// The uploads of all tenants. Equal ids of two tenants are two uploads.
pub struct Uploads {
    by_id: Mutex<UploadsById>,
    slots: Arc<Quota>,
    pool: PayloadPool,
}

type UploadsById = HashMap<(TenantId, UploadId), Arc<StoredUpload>>;

impl Uploads {
    /// At most `uploads_max` uploads and vectors, in the memory of `pool`.
    pub fn new(uploads_max: u64, pool: PayloadPool) -> Self {
        Self { by_id: Mutex::default(), slots: Quota::new(Limit::Uploads, uploads_max), pool }
    }

    /// Finds the upload of `header`, or opens one once `admit` has admitted its bytes.
    ///
    /// Errors: `UploadConflict` if the id is in use with another header; `Exhausted`; those of
    /// `admit`.
    pub fn open(
        &self,
        tenant: &Tenant,
        header: &UploadHeader,
        admit: impl FnOnce(u64) -> Result<Vec<QuotaPermit>>,
    ) -> Result<Arc<StoredUpload>> {
        let mut all = self.by_id.lock();
        let key = (tenant.id, header.id());
        if let Some(upload) = all.get(&key) {
            let is_same = upload.header.describes_payload_of(header);
            return if is_same { Ok(upload.clone()) } else { Err(Error::UploadConflict) };
        }
        let slot = self.slot(tenant, &tenant.uploads)?;
        let bytes = header.bytes()?;
        let payload = Arc::new(UploadBuffer::new(&self.pool, bytes, admit(bytes)?));
        let upload = Arc::new(StoredUpload::new(header.clone(), payload, slot));
        all.insert(key, upload.clone());
        Ok(upload)
    }

    /// An upload of a vector in a region, which only the call that opens it knows.
    ///
    /// Errors: `Exhausted`.
    pub fn open_in_region(
        &self,
        tenant: &Tenant,
        InputSpec { encoding, count }: InputSpec,
        region: RegionSlice,
    ) -> Result<Arc<StoredUpload>> {
        let slot = self.slot(tenant, &tenant.uploads)?;
        let payload = Arc::new(UploadBuffer::to_region(&self.pool, region));
        let vector = VectorUploadHeader { id: UploadId([0; 16]), encoding, count, streams: 1 };
        Ok(Arc::new(StoredUpload::new(UploadHeader::Vector(vector), payload, slot)))
    }

    /// Adds a vector that the server computed.
    ///
    /// Errors: `Exhausted`; `UploadConflict` if the id is in use.
    pub fn insert(
        &self,
        tenant: &Tenant,
        vector: VectorUploadHeader,
        payload: Arc<UploadBuffer>,
    ) -> Result<()> {
        let (id, slot) = (vector.id, self.slot(tenant, &tenant.vectors)?);
        let mut all = self.by_id.lock();
        let Entry::Vacant(entry) = all.entry((tenant.id, id)) else {
            return Err(Error::UploadConflict);
        };
        let header = UploadHeader::Vector(vector);
        entry.insert(Arc::new(StoredUpload::new(header, payload, slot)));
        Ok(())
    }

    /// A slot of the server and one of the tenant's `quota`.
    fn slot(&self, tenant: &Tenant, quota: &Arc<Quota>) -> Result<UploadSlot> {
        let permits = || Ok([quota.acquire(1)?, self.slots.acquire(1)?]);
        let permits = permits().inspect_err(telemetry::count_refusal)?;
        Ok(UploadSlot { tenant: tenant.id, _permits: permits })
    }

    /// Like [`Self::get`], but asking for a complete vector does not keep it: who uses it does.
    pub fn look_up(&self, tenant: TenantId, id: UploadId) -> Result<Arc<StoredUpload>> {
        let upload = self.by_id.lock().get(&(tenant, id)).cloned().ok_or(Error::NotFound)?;
        if !upload.payload.is_complete() {
            // Its sender is about to resume it.
            upload.streams.lock().last_use = Instant::now();
        }
        Ok(upload)
    }

    /// Resets the idle time.
    pub fn get(&self, tenant: TenantId, id: UploadId) -> Result<Arc<StoredUpload>> {
        let upload = self.by_id.lock().get(&(tenant, id)).cloned().ok_or(Error::NotFound)?;
        upload.streams.lock().last_use = Instant::now();
        Ok(upload)
    }

    /// Removes an upload. If it is incomplete, it fails with `Cancelled`. Running jobs keep it.
    pub fn release(&self, tenant: TenantId, id: UploadId) -> Result<()> {
        let upload = self.by_id.lock().remove(&(tenant, id)).ok_or(Error::NotFound)?;
        upload.set_outcome(Err(Error::Cancelled));
        Ok(())
    }

    /// Removes `upload`, unless its id belongs to another upload by now.
    pub fn remove(&self, upload: &Arc<StoredUpload>) {
        let mut all = self.by_id.lock();
        let key = (upload.tenant, upload.header.id());
        if all.get(&key).is_some_and(|held| Arc::ptr_eq(held, upload)) {
            all.remove(&key);
        }
    }

    /// Drops idle uploads and returns their number: incomplete or abandoned ones after
    /// `broken_ttl`, vectors after `vector_ttl`, uploads without a byte after `EMPTY_TTL` at the
    /// latest. An empty one has nothing to resume, and its header may have arrived after the client
    /// released it.
    pub fn drop_idle(&self, broken_ttl: Duration, vector_ttl: Duration) -> usize {
        let now = Instant::now();
        let mut stale = Vec::new();
        self.by_id.lock().retain(|_, upload| {
            let ttl = upload.ttl(broken_ttl, vector_ttl);
            let is_kept = upload.idle_for(now).is_none_or(|idle| idle < ttl);
            if !is_kept {
                stale.push((upload.clone(), ttl));
            }
            is_kept
        });
        for (upload, ttl) in &stale {
            upload.set_outcome(Err(Error::Idle(*ttl)));
        }
        stale.len()
    }
}

#[cfg(test)]
mod tests;
