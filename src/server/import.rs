//! Uploads of bases. Each upload has an import job, which outlives the upload's streams.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::{State, call::Call};
use crate::{
    curve::{G1Affine, G2Affine, Group, points::CurvePoint},
    engine::Control,
    error::{Error, Result},
    jobs::{ImportWork, Imported},
    store::{Header, Outcome, Room, StoredBases, Upload, now_s},
    telemetry,
    wire::decode::{BasesUpload, ObjectId, PayloadId},
};

/// Finds or opens the upload of `header`. For new bases, starts the import job.
///
/// Errors: `NoDataDir`, `UploadConflict`, `Exhausted`, `Draining`.
pub fn open(call: &Call, header: &Header) -> Result<Arc<Upload>> {
    let state = &call.state;
    let Header::Bases(bases) = header else {
        let (upload, _) = state.uploads.open(header, |bytes| call.admit(bytes, 0))?;
        return Ok(upload);
    };
    if bases.persist && !state.bases.has_disk() {
        return Err(Error::NoDataDir);
    }
    let mut taken = None;
    let (upload, _) = state.uploads.open(header, |bytes| {
        let held = call.admit(bytes, 0)?;
        let room = state.bases.room(bases.group, bases.count).inspect_err(telemetry::refused)?;
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
            upload.conclude(stored.map(Outcome::Bases));
            state.uploads.remove(&upload);
        });
    }
    Ok(upload)
}

async fn import<A: CurvePoint>(
    state: &Arc<State>,
    bases: &BasesUpload,
    upload: &Arc<Upload>,
) -> Result<Imported> {
    let (host, arrival) = (state.compute.clone(), upload.payload.clone());
    let (what, promised) = ((bases.encoding, bases.count as usize), bases.payload_hash);
    let ticket = state.scheduler.submit(Control::default(), |wake| {
        ImportWork::<A>::new(host, what, promised, arrival, wake)
    });
    Ok(ticket.await?.0)
}

async fn store(
    state: &Arc<State>,
    upload: BasesUpload,
    imported: Imported,
    room: Room,
) -> Result<Arc<StoredBases>> {
    let bases = StoredBases {
        id: ObjectId(imported.id),
        points: imported.bases,
        infinities: imported.infinities,
        payload: Some(PayloadId { hash: imported.payload_hash, encoding: upload.encoding }),
        label: upload.label,
        created_s: now_s(),
        persisted: false,
    };
    let state = state.clone();
    let stored = spawn_blocking(move || state.bases.insert(bases, room, upload.persist)).await;
    stored.unwrap_or_else(|_| Err(Error::Internal("storing bases panicked".into())))
}
