//! Uploads of bases. Each upload has an import job, which outlives the upload's streams.

use std::{convert::Infallible, future, sync::Arc, time::Duration};

use super::{call::CallContext, state::ServerState};
use crate::{
    curve::{G1Affine, G2Affine, Group, points::CurvePoint},
    engine::JobControl,
    error::{Error, Result},
    jobs::{BasesImport, ImportJob, ImportedBases, JobOwner},
    store::{StoreCharge, StoredBases, StoredUpload, UploadHeader, UploadOutcome, unix_time_s},
    telemetry,
    tenant::Tenant,
    wire::decode::{BasesUploadHeader, ObjectId, PayloadId},
};

/// Finds or opens the upload of `header`. For new bases, starts the import job.
///
/// Errors: `NoDataDir`, `UploadConflict`, `Exhausted`, `Draining`.
pub fn open_upload(call: &CallContext, header: &UploadHeader) -> Result<Arc<StoredUpload>> {
    let state = &call.state;
    let UploadHeader::Bases(bases) = header else {
        return state.uploads.open(&call.tenant, header, |bytes| call.admit(bytes, 0));
    };
    if bases.persist && !state.bases.has_disk() {
        return Err(Error::NoDataDir);
    }
    let mut new_import = None;
    let upload = state.uploads.open(&call.tenant, header, |bytes| {
        let upload_permit = call.admit(bytes, 0)?;
        // An import pays for its time afterwards, so there must be no debt.
        let paid = call.tenant.device_time.take(Duration::ZERO);
        paid.inspect_err(telemetry::count_refusal)?;
        let charge = state.bases.reserve(&call.tenant, bases.group, bases.count);
        let charge = charge.inspect_err(telemetry::count_refusal)?;
        new_import = Some((call.admit(0, 1)?, charge));
        Ok(upload_permit)
    })?;
    if let Some((permit, charge)) = new_import {
        let (state, bases, upload) = (state.clone(), bases.clone(), upload.clone());
        let (owner, tenant) = (call.owner(), call.tenant.clone());
        // The import belongs to the upload, not to this call: other streams may carry on.
        tokio::spawn(async move {
            // Keeps the upload from being idle if the import takes long after the last byte.
            let _in_use = upload.begin_use();
            let result = match bases.group {
                Group::G1 => import::<G1Affine>(&state, owner, &tenant, &bases, &upload).await,
                Group::G2 => import::<G2Affine>(&state, owner, &tenant, &bases, &upload).await,
            };
            let stored = match result {
                Ok(imported) => store(&state, &tenant, bases, imported, charge).await,
                Err(error) => {
                    drop(charge);
                    Err(error)
                }
            };
            // Like the charge, before the response: the caller may send the next request at once.
            drop(permit);
            upload.set_outcome(stored.map(UploadOutcome::Bases));
            state.uploads.remove(&upload);
        });
    }
    Ok(upload)
}

async fn import<A: CurvePoint>(
    state: &Arc<ServerState>,
    owner: JobOwner,
    tenant: &Tenant,
    bases: &BasesUploadHeader,
    upload: &Arc<StoredUpload>,
) -> Result<ImportedBases> {
    let (host, payload) = (state.compute.clone(), upload.payload.clone());
    let device_time = tenant.device_time.clone();
    let import = BasesImport {
        encoding: bases.encoding,
        point_count: bases.count as usize,
        expected_hash: bases.payload_hash,
    };
    let job = |wake| ImportJob::<A>::new(host, import, payload, device_time, wake);
    let control = JobControl::default();
    let ticket = state.scheduler.submit(owner, control.clone(), job);
    let cancel_with_upload = async {
        // Before the import has ended, only a release or the idle timeout concludes the upload.
        let _released = upload.concluded().await;
        control.cancel();
        future::pending::<Infallible>().await
    };
    // Waits for a cancelled job, whose memory the caller's permits count.
    tokio::select! {
        done = ticket => Ok(done?.output),
        never = cancel_with_upload => match never {},
    }
}

async fn store(
    state: &Arc<ServerState>,
    tenant: &Arc<Tenant>,
    upload: BasesUploadHeader,
    imported: ImportedBases,
    charge: StoreCharge,
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
    state.bases.insert(tenant, bases, charge, upload.persist).await
}
