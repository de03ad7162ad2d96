//! Uploads of bases. Each upload has an import job, which outlives the upload's streams.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::{ServerState, call::CallContext};
use crate::{
    curve::{G1Affine, G2Affine, Group, points::CurvePoint},
    engine::JobControl,
    error::{Error, Result},
    jobs::{ImportJob, ImportedBases},
    store::{StoreCharge, StoredBases, StoredUpload, UploadHeader, UploadOutcome, unix_time_s},
    telemetry,
    wire::decode::{BasesUploadHeader, ObjectId, PayloadId},
};

/// Finds or opens the upload of `header`. For new bases, starts the import job.
///
/// Errors: `NoDataDir`, `UploadConflict`, `Exhausted`, `Draining`.
pub fn open_upload(call: &CallContext, header: &UploadHeader) -> Result<Arc<StoredUpload>> {
    let state = &call.state;
    let UploadHeader::Bases(bases) = header else {
        let (upload, _) = state.uploads.open(header, |bytes| call.admit(bytes, 0))?;
        return Ok(upload);
    };
    if bases.persist && !state.bases.has_disk() {
        return Err(Error::NoDataDir);
    }
    let mut taken = None;
    let (upload, _) = state.uploads.open(header, |bytes| {
        let held = call.admit(bytes, 0)?;
        let room =
            state.bases.reserve(bases.group, bases.count).inspect_err(telemetry::count_refusal)?;
        taken = Some((call.admit(0, 1)?, room));
        Ok(held)
    })?;
    // Set only if the upload is new.
    if let Some((permit, room)) = taken {
        let (state, bases, upload) = (state.clone(), bases.clone(), upload.clone());
        // The import belongs to the upload, not to this call: other streams may carry on.
        tokio::spawn(async move {
            // Keeps the upload from being idle if the import takes long after the last byte.
            let _used = upload.begin_use();
            let result = match bases.group {
                Group::G1 => import::<G1Affine>(&state, &bases, &upload).await,
                Group::G2 => import::<G2Affine>(&state, &bases, &upload).await,
            };
            let stored = match result {
                Ok(imported) => store(&state, bases, imported, room).await,
                Err(error) => Err(error),
            };
            // Before the response, because the caller may send the next request at once.
            drop(permit);
            upload.set_outcome(stored.map(UploadOutcome::Bases));
            state.uploads.remove(&upload);
        });
    }
    Ok(upload)
}

async fn import<A: CurvePoint>(
    state: &Arc<ServerState>,
    bases: &BasesUploadHeader,
    upload: &Arc<StoredUpload>,
) -> Result<ImportedBases> {
    let (host, arrival) = (state.compute.clone(), upload.payload.clone());
    let (what, promised) = ((bases.encoding, bases.count as usize), bases.payload_hash);
    let ticket = state.scheduler.submit(JobControl::default(), |wake| {
        ImportJob::<A>::new(host, what, promised, arrival, wake)
    });
    Ok(ticket.await?.0)
}

async fn store(
    state: &Arc<ServerState>,
    upload: BasesUploadHeader,
    imported: ImportedBases,
    room: StoreCharge,
) -> Result<Arc<StoredBases>> {
    let bases = StoredBases {
        id: ObjectId(imported.id),
        points: imported.bases,
        infinities: imported.infinities,
        payload: Some(PayloadId { hash: imported.payload_hash, encoding: upload.encoding }),
        label: upload.label,
        created_s: unix_time_s(),
        persisted: false,
    };
    let state = state.clone();
    let stored = spawn_blocking(move || state.bases.insert(bases, room, upload.persist)).await;
    stored.unwrap_or_else(|_| Err(Error::Internal("storing bases panicked".into())))
}
