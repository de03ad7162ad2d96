//! The uploads that a call opens: in payload memory, or in a region that the client writes to.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::Code;

use crate::grpc::{
    calls::{call::CallContext, status::CallError},
    state::ServerState,
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, Result},
    program::InputSpec,
    store::{StoredUpload, UploadHeader, UploadStreamGuard},
    wire::decode::VectorUploadHeader,
};

/// The uploads that a streamed job reads. If they are dropped before [`StreamedUploads::end`], they
/// end if the deadline has passed, and can be resumed if the caller has gone.
pub struct StreamedUploads {
    uploads: Vec<Arc<StoredUpload>>,
    state: Arc<ServerState>,
    deadline: Option<Instant>,
    is_ended: bool,
}

impl StreamedUploads {
    pub fn new(call: &CallContext) -> Self {
        let (state, deadline) = (call.state.clone(), call.deadline);
        Self { uploads: Vec::new(), state, deadline, is_ended: false }
    }

    /// Finds or opens an upload, and admits the bytes of a new one. Returns its payload.
    ///
    /// Errors: `UploadConflict`, `Exhausted`, `Draining`.
    pub fn open(
        &mut self,
        call: &CallContext,
        vector: VectorUploadHeader,
    ) -> Result<Arc<UploadBuffer>> {
        let admit = |bytes| call.admit(bytes, 0);
        let header = UploadHeader::Vector(vector);
        let upload = self.state.uploads.open(call.upload_owner(), &header, admit)?;
        Ok(self.add(upload))
    }

    /// Opens the upload of a vector that the client writes to a region. Returns its payload.
    ///
    /// Errors: `Exhausted`.
    pub fn open_in_region(
        &mut self,
        call: &CallContext,
        spec: InputSpec,
        region: RegionSlice,
    ) -> Result<Arc<UploadBuffer>> {
        let upload = self.state.uploads.open_in_region(call.upload_owner(), spec, region)?;
        Ok(self.add(upload))
    }

    fn add(&mut self, upload: Arc<StoredUpload>) -> Arc<UploadBuffer> {
        let payload = upload.payload.clone();
        self.uploads.push(upload);
        payload
    }

    pub fn count(&self) -> usize {
        self.uploads.len()
    }

    pub fn payloads(&self) -> impl Iterator<Item = &Arc<UploadBuffer>> {
        self.uploads.iter().map(|upload| &upload.payload)
    }

    pub fn is_complete(&self) -> bool {
        self.payloads().all(|payload| payload.is_complete())
    }

    /// Time from `begun` to the last byte that was received.
    pub fn receive_time_since(&self, begun: Instant) -> Duration {
        let times = self.payloads().map(|payload| payload.receive_time_since(begun));
        times.max().unwrap_or_default()
    }

    /// Errors: `Exhausted` if too many streams carry one of the uploads.
    pub fn begin_streams(&self) -> Result<Vec<UploadStreamGuard>> {
        self.uploads.iter().map(StoredUpload::begin_stream).collect()
    }

    /// Ends the uploads because the job has ended. If the connection broke, they are kept for the
    /// idle timeout, so that they can be resumed.
    pub fn end(&mut self, failure: Option<&CallError>) {
        self.is_ended = true;
        let is_broken = failure
            .is_some_and(|failure| matches!(failure.code(), Code::Cancelled | Code::Unknown));
        if is_broken && !self.is_complete() {
            return;
        }
        for upload in &self.uploads {
            self.state.uploads.remove(upload);
            if failure.is_some() {
                // Ends the other streams that carry it. The call of the job reports the reason.
                upload.set_outcome(Err(Error::CANCELLED));
            }
        }
    }
}

impl Drop for StreamedUploads {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.end(Some(&Error::DEADLINE.into()));
        } else {
            self.uploads.iter().for_each(|upload| upload.mark_abandoned());
        }
    }
}
