//! Uploads of bases and matrices. Each upload has an import job, which outlives the upload's
//! streams.

use std::{convert::Infallible, future, sync::Arc, time::Duration};

use crate::grpc::{calls::call::CallContext, state::ServerState};
use crate::{
    curve::{G1Affine, G2Affine, Group, points::CurvePoint},
    engine::JobControl,
    error::{Error, Result},
    jobs::{BasesImport, ImportJob, JobOwner, JobWaker, JobWork, MatrixImport, MatrixImportJob},
    sparse::SparseShape,
    store::{
        ObjectData, StoreCharge, StoredObject, StoredPoints, StoredUpload, UploadHeader,
        UploadOutcome, unix_time_s,
    },
    telemetry,
    tenant::Tenant,
    wire::decode::{EncodedPoints, ObjectId, ObjectUploadHeader, PayloadId, UploadContent},
};

/// Finds or opens the upload of `header`. For a new object, starts the import job.
///
/// Errors: `NoDataDir`, `UploadConflict`, `Exhausted`, `Draining`.
pub fn open_upload(call: &CallContext, header: &UploadHeader) -> Result<Arc<StoredUpload>> {
    let state = &call.state;
    let UploadHeader::Object(object) = header else {
        return state.uploads.open(call.upload_owner(), header, |bytes| call.admit(bytes, 0));
    };
    if object.persist && !state.objects.has_disk() {
        return Err(Error::NoDataDir);
    }
    let object_bytes = object.content.object_bytes()?;
    let mut new_import = None;
    let upload = state.uploads.open(call.upload_owner(), header, |bytes| {
        let upload_permit = call.admit(bytes, 0)?;
        // An import pays for its time afterwards, so there must be no debt.
        let paid = call.tenant.device_time.take(Duration::ZERO);
        paid.inspect_err(telemetry::count_refusal)?;
        let has_others = call.has_others();
        let charge = state.objects.reserve_share(&call.tenant, object_bytes, has_others);
        let charge = charge.inspect_err(telemetry::count_refusal)?;
        new_import = Some((call.admit(0, 1)?, charge));
        Ok(upload_permit)
    })?;
    if let Some((permit, charge)) = new_import {
        let import = ObjectImport {
            state: state.clone(),
            owner: call.owner(),
            tenant: call.tenant.clone(),
            header: object.clone(),
            upload: upload.clone(),
        };
        // The import belongs to the upload, not to this call: other streams may carry on.
        tokio::spawn(async move {
            // Keeps the upload from being idle if the import takes long after the last byte.
            let _in_use = import.upload.begin_use();
            let stored = match import.run().await {
                Ok(imported) => import.store(imported, charge).await,
                Err(error) => {
                    drop(charge);
                    Err(error)
                }
            };
            // Like the charge, before the response: the caller may send the next request at once.
            drop(permit);
            import.upload.set_outcome(stored.map(UploadOutcome::Object));
            import.state.uploads.remove(&import.upload);
        });
    }
    Ok(upload)
}

/// An upload that becomes an object.
struct ObjectImport {
    state: Arc<ServerState>,
    owner: JobOwner,
    tenant: Arc<Tenant>,
    header: ObjectUploadHeader,
    upload: Arc<StoredUpload>,
}

/// An object whose bytes were checked.
struct ImportedObject {
    id: [u8; 32],
    data: ObjectData,
    payload_hash: [u8; 32],
}

impl ObjectImport {
    async fn run(&self) -> Result<ImportedObject> {
        match self.header.content {
            UploadContent::Bases(points) => match points.group {
                Group::G1 => self.import_bases::<G1Affine>(points).await,
                Group::G2 => self.import_bases::<G2Affine>(points).await,
            },
            UploadContent::Matrix(shape) => self.import_matrix(shape).await,
        }
    }

    async fn import_bases<A: CurvePoint>(&self, points: EncodedPoints) -> Result<ImportedObject> {
        let (host, payload) = (self.state.compute.clone(), self.upload.payload.clone());
        let device_time = self.tenant.device_time.clone();
        let import = BasesImport {
            encoding: points.encoding,
            point_count: points.count as usize,
            expected_hash: self.header.payload_hash,
        };
        let job = |wake| ImportJob::<A>::new(host, import, payload, device_time, wake);
        let imported = self.run_job(job).await?;
        let (points, infinities) = (imported.bases, imported.infinities);
        let data = ObjectData::Bases(StoredPoints { points, infinities });
        Ok(ImportedObject { id: imported.id, data, payload_hash: imported.payload_hash })
    }

    async fn import_matrix(&self, shape: SparseShape) -> Result<ImportedObject> {
        let (host, payload) = (self.state.compute.clone(), self.upload.payload.clone());
        let device_time = self.tenant.device_time.clone();
        let import = MatrixImport { shape, expected_hash: self.header.payload_hash };
        let job = |wake| MatrixImportJob::new(host, import, payload, device_time, wake);
        let imported = self.run_job(job).await?;
        let data = ObjectData::Matrix(imported.matrix);
        Ok(ImportedObject { id: imported.id, data, payload_hash: imported.payload_hash })
    }

    /// Runs the job, and cancels it if the upload is released.
    async fn run_job<W: JobWork>(&self, job: impl FnOnce(JobWaker) -> W) -> Result<W::Output> {
        let control = JobControl::default();
        let ticket = self.state.scheduler.submit(self.owner, control.clone(), job);
        let cancel_with_upload = async {
            // Before the import has ended, only a release or the idle timeout concludes the upload.
            let _released = self.upload.concluded().await;
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
        &self,
        imported: ImportedObject,
        charge: StoreCharge,
    ) -> Result<Arc<StoredObject>> {
        let ImportedObject { id, data, payload_hash: hash } = imported;
        let object = StoredObject {
            id: ObjectId(id),
            data,
            payload: Some(PayloadId { hash, form: self.header.content.form() }),
            label: self.header.label.clone(),
            created_s: unix_time_s(),
            persisted: false,
        };
        self.state.objects.insert(&self.tenant, object, charge, self.header.persist).await
    }
}
