//! Uploads in progress, and vectors, which are complete uploads.
//!
//! An upload exists from its first header on. Any number of streams can carry chunks of it, one
//! after another or concurrently. It ends when it is used, released, failed or idle for too long.
//!
//! Uploads are shared by id, not by connection. The client picks a random id. Every stream repeats
//! the header, so the first to arrive opens the upload, and no stream waits for a response before
//! it sends. Striping, resuming, and starting a job before its data has arrived are then one
//! mechanism.

mod header;
mod kept;
mod slot;
mod stored_upload;

pub use self::{
    header::UploadHeader,
    kept::KeptVectors,
    slot::UploadOwner,
    stored_upload::{StoredUpload, UploadLimits, UploadOutcome, UploadStreamGuard, UploadUseGuard},
};

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use self::slot::UploadSlot;
use crate::{
    buffer::{PayloadPool, Quota, QuotaPermit, RegionSlice, UploadBuffer},
    error::{EngineError, Error, Limit, Result},
    program::InputSpec,
    sync::Mutex,
    tenant::TenantId,
    wire::decode::{UploadId, VectorUploadHeader},
};

/// The uploads of all tenants. Equal ids of two tenants are two uploads.
pub struct Uploads {
    by_id: Mutex<UploadsById>,
    slots: Arc<Quota>,
    limits: UploadLimits,
    pool: PayloadPool,
}

type UploadsById = HashMap<(TenantId, UploadId), Arc<StoredUpload>>;

impl Uploads {
    /// At most `uploads_max` uploads and vectors, in the memory of `pool`.
    pub fn new(uploads_max: u64, pool: PayloadPool) -> Self {
        let by_id = Mutex::default();
        let slots = Quota::new(Limit::Uploads, uploads_max);
        let limits = UploadLimits { streams_max: u64::MAX, bytes_per_second_min: 0 };
        Self { by_id, slots, limits, pool }
    }

    /// Without this, an upload may have any number of streams and any rate.
    pub fn with_limits(self, limits: UploadLimits) -> Self {
        Self { limits, ..self }
    }

    /// Finds the upload of `header`, or opens one once `admit` has admitted its bytes.
    ///
    /// Errors: `UploadConflict` if the id is in use with another header; `Exhausted`; those of
    /// `admit`.
    pub fn open(
        &self,
        owner: UploadOwner<'_>,
        header: &UploadHeader,
        admit: impl FnOnce(u64) -> Result<Vec<QuotaPermit>>,
    ) -> Result<Arc<StoredUpload>> {
        let mut all = self.by_id.lock();
        let key = (owner.tenant.id, header.id());
        if let Some(upload) = all.get(&key) {
            let is_same = upload.header.describes_payload_of(header);
            return if is_same { Ok(upload.clone()) } else { Err(Error::UploadConflict) };
        }
        let slot = UploadSlot::take(owner, &owner.tenant.uploads, &self.slots)?;
        let bytes = header.bytes()?;
        let payload = Arc::new(UploadBuffer::new(&self.pool, bytes, admit(bytes)?));
        let upload = self.stored(header.clone(), payload, slot);
        all.insert(key, upload.clone());
        Ok(upload)
    }

    /// An upload of a vector in a region, which only the call that opens it knows.
    ///
    /// Errors: `Exhausted`.
    pub fn open_in_region(
        &self,
        owner: UploadOwner<'_>,
        InputSpec { encoding, count, .. }: InputSpec,
        region: RegionSlice,
    ) -> Result<Arc<StoredUpload>> {
        let slot = UploadSlot::take(owner, &owner.tenant.uploads, &self.slots)?;
        let payload = Arc::new(UploadBuffer::to_region(&self.pool, region));
        let vector = VectorUploadHeader { id: UploadId([0; 16]), encoding, count, streams: 1 };
        Ok(self.stored(UploadHeader::Vector(vector), payload, slot))
    }

    fn stored(
        &self,
        header: UploadHeader,
        payload: Arc<UploadBuffer>,
        slot: UploadSlot,
    ) -> Arc<StoredUpload> {
        Arc::new(StoredUpload::new(header, payload, slot, self.limits))
    }

    /// The idle time goes on: asking for an upload does not keep it.
    pub fn look_up(&self, tenant: TenantId, id: UploadId) -> Result<Arc<StoredUpload>> {
        self.by_id.lock().get(&(tenant, id)).cloned().ok_or(Error::NOT_FOUND)
    }

    /// Resets the idle time, unless bytes are missing.
    pub fn get(&self, tenant: TenantId, id: UploadId) -> Result<Arc<StoredUpload>> {
        let upload = self.look_up(tenant, id)?;
        upload.touch();
        Ok(upload)
    }

    /// Removes an upload. If it is incomplete, it fails with `Cancelled`. Running jobs keep it.
    pub fn release(&self, tenant: TenantId, id: UploadId) -> Result<()> {
        let upload = self.by_id.lock().remove(&(tenant, id)).ok_or(Error::NOT_FOUND)?;
        upload.set_outcome(Err(Error::CANCELLED));
        Ok(())
    }

    /// Removes `upload`, unless its id belongs to another upload by now.
    pub fn remove(&self, upload: &Arc<StoredUpload>) {
        let mut all = self.by_id.lock();
        let key = (upload.tenant(), upload.header.id());
        if all.get(&key).is_some_and(|held| Arc::ptr_eq(held, upload)) {
            all.remove(&key);
        }
    }

    /// Drops idle uploads and returns their number: incomplete or abandoned ones after
    /// `broken_ttl`, vectors after `vector_ttl`, uploads without a byte after `EMPTY_TTL` at the
    /// latest. An empty one has nothing to resume, and its header may have arrived after the client
    /// released it. `late` is how late the server is: its clients could not send meanwhile.
    pub fn drop_idle(&self, broken_ttl: Duration, vector_ttl: Duration, late: Duration) -> usize {
        let now = Instant::now();
        let mut stale = Vec::new();
        self.by_id.lock().retain(|_, upload| {
            let ttl = upload.ttl(broken_ttl, vector_ttl);
            let is_kept = upload.idle_for(now, late).is_none_or(|idle| idle < ttl);
            if !is_kept {
                stale.push((upload.clone(), ttl));
            }
            is_kept
        });
        for (upload, ttl) in &stale {
            upload.set_outcome(Err(EngineError::Idle(*ttl).into()));
        }
        stale.len()
    }
}

#[cfg(test)]
mod tests;
