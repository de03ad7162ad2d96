//! Uploads of bases and matrices. Each upload has an import job, which outlives the upload's
//! streams.

use std::{convert::Infallible, future, sync::Arc};

use crate::grpc::{calls::call::CallContext, state::ServerState};
use crate::{
    curve::{G1Affine, G2Affine, Group, points::CurvePoint},
    engine::JobControl,
    error::{Error, Result},
    jobs::{
        ImportJob, Imported, ImportedBases, ImportedContent, JobOwner, JobWaker, JobWork,
        MatrixImport, ObjectImport, PointsImport,
    },
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
        call.check_debt()?;
        let has_others = call.has_others();
        let charge = state.objects.reserve_share(&call.tenant, object_bytes, has_others);
        let charge = charge.inspect_err(telemetry::count_refusal)?;
        new_import = Some((call.admit(0, 1)?, charge));
        Ok(upload_permit)
    })?;
    if let Some((permit, charge)) = new_import {
        let import = RunningImport {
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

/// An upload in progress that becomes an object.
struct RunningImport {
    state: Arc<ServerState>,
    owner: JobOwner,
    tenant: Arc<Tenant>,
    header: ObjectUploadHeader,
    upload: Arc<StoredUpload>,
}

impl RunningImport {
    async fn run(&self) -> Result<Imported<ObjectData>> {
        match self.header.content {
            UploadContent::Bases(points) => match points.group {
                Group::G1 => self.import_bases::<G1Affine>(points).await,
                Group::G2 => self.import_bases::<G2Affine>(points).await,
            },
            UploadContent::Matrix(shape) => {
                self.import(MatrixImport::new(shape), ObjectData::Matrix).await
            }
        }
    }

    async fn import_bases<A: CurvePoint>(
        &self,
        points: EncodedPoints,
    ) -> Result<Imported<ObjectData>> {
        let content = PointsImport::<A>::new(points.encoding, points.count as usize);
        let data = |ImportedBases { bases: points, infinities }| {
            ObjectData::Bases(StoredPoints { points, infinities })
        };
        self.import(content, data).await
    }

    async fn import<C: ImportedContent>(
        &self,
        content: C,
        data: impl FnOnce(C::Data) -> ObjectData,
    ) -> Result<Imported<ObjectData>> {
        let host = self.state.compute.clone();
        let import = ObjectImport {
            content,
            payload: self.upload.payload.clone(),
            expected_hash: self.header.payload_hash,
            device_time: self.tenant.device_time.clone(),
        };
        let imported = self.run_job(|wake| ImportJob::new(host, import, wake)).await?;
        let Imported { data: imported, id, payload_hash } = imported;
        Ok(Imported { data: data(imported), id, payload_hash })
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
        imported: Imported<ObjectData>,
        charge: StoreCharge,
    ) -> Result<Arc<StoredObject>> {
        let Imported { id, data, payload_hash: hash } = imported;
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
