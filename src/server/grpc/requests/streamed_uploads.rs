//! The uploads that a call opens: in payload memory, or in a region that the client writes to.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::Code;

use crate::grpc::{
    calls::{call::CallContext, status::CallError},
    objects::regions::find_slice,
    state::ServerState,
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, Result},
    jobs::InputPayload,
    program::InputSpec,
    store::{StoredUpload, UploadHeader, UploadStreamGuard},
    verify::Verification,
    wire::decode::{RegionUploadHeader, StreamedVector, VectorUploadHeader},
};

/// A vector in a region.
pub struct FoundRegion {
    pub spec: InputSpec,
    pub slice: RegionSlice,
    /// Whether the job reads a copy.
    pub is_copied: bool,
}

impl FoundRegion {
    /// Payload bytes that the copy must be admitted for.
    pub fn unadmitted_bytes(&self) -> u64 {
        if self.is_copied { self.slice.size() } else { 0 }
    }

    /// Memory for the copy.
    ///
    /// Errors: `Exhausted`, `Draining`.
    pub fn copy(&self, call: &CallContext) -> Result<Option<Arc<UploadBuffer>>> {
        if !self.is_copied {
            return Ok(None);
        }
        let (pool, size) = (&call.state.inputs, self.slice.size());
        Ok(Some(Arc::new(UploadBuffer::new(pool, size, call.admit(size, 0)?))))
    }
}

/// A vector that a call receives while it computes, and its memory if that is a region.
pub enum FoundVector {
    Upload(VectorUploadHeader),
    Region(FoundRegion),
}

impl FoundVector {
    /// Errors: `LocalOnly`; `Invalid` for an unknown region or a part beyond its end.
    pub fn find(call: &CallContext, vector: StreamedVector) -> Result<Self> {
        Ok(match vector {
            StreamedVector::Upload(upload) => Self::Upload(upload),
            StreamedVector::Region(RegionUploadHeader { vector, count }) => {
                let slice = find_slice(call, vector, count)?;
                let spec = InputSpec { encoding: vector.encoding, count };
                Self::Region(FoundRegion { spec, slice, is_copied: false })
            }
        })
    }

    /// Like [`Self::find`], for a call that checks its result like `verify`. The check reads the
    /// vector again when the client may have changed it.
    pub fn find_for(
        call: &CallContext,
        vector: StreamedVector,
        verify: Verification,
    ) -> Result<Self> {
        let mut found = Self::find(call, vector)?;
        if let Self::Region(region) = &mut found {
            region.is_copied = verify != Verification::None;
        }
        Ok(found)
    }

    pub fn spec(&self) -> InputSpec {
        match self {
            Self::Upload(vector) => vector.spec(),
            Self::Region(region) => region.spec,
        }
    }

    /// The part of a region that holds it.
    pub fn slice(&self) -> Option<&RegionSlice> {
        match self {
            Self::Upload(_) => None,
            Self::Region(region) => Some(&region.slice),
        }
    }

    /// Payload bytes that the vector must be admitted for: none for an upload that exists.
    pub fn unadmitted_bytes(&self, call: &CallContext) -> Result<u64> {
        match self {
            Self::Upload(vector) => call.unadmitted_payload_bytes(vector),
            Self::Region(region) => Ok(region.unadmitted_bytes()),
        }
    }
}

struct StreamedUpload {
    upload: Arc<StoredUpload>,
    /// Memory for a copy of a payload in a region.
    copy: Option<Arc<UploadBuffer>>,
}

impl StreamedUpload {
    fn open(call: &CallContext, vector: FoundVector) -> Result<Self> {
        let uploads = &call.state.uploads;
        match vector {
            FoundVector::Upload(vector) => {
                let admit = |bytes| call.admit(bytes, 0);
                let upload =
                    uploads.open(call.upload_owner(), &UploadHeader::Vector(vector), admit)?;
                Ok(Self { upload, copy: None })
            }
            FoundVector::Region(region) => {
                let copy = region.copy(call)?;
                let FoundRegion { spec, slice, .. } = region;
                let upload = uploads.open_in_region(call.upload_owner(), spec, slice)?;
                Ok(Self { upload, copy })
            }
        }
    }
}

/// The uploads that a streamed job reads. If they are dropped before [`StreamedUploads::end`], they
/// end if the deadline has passed, and can be resumed if the caller has gone.
pub struct StreamedUploads {
    uploads: Vec<StreamedUpload>,
    state: Arc<ServerState>,
    deadline: Option<Instant>,
    is_ended: bool,
}

impl StreamedUploads {
    pub fn new(call: &CallContext) -> Self {
        let (state, deadline) = (call.state.clone(), call.deadline);
        Self { uploads: Vec::new(), state, deadline, is_ended: false }
    }

    /// The upload of a call that has only this one.
    ///
    /// Errors: those of [`Self::open`].
    pub fn only(call: &CallContext, vector: FoundVector) -> Result<Self> {
        let mut opened = Self::new(call);
        opened.open(call, vector)?;
        Ok(opened)
    }

    /// Finds or opens an upload, and admits the bytes of a new one or of a copy. Returns its index.
    ///
    /// Errors: `UploadConflict`, `Exhausted`, `Draining`.
    pub fn open(&mut self, call: &CallContext, vector: FoundVector) -> Result<usize> {
        self.uploads.push(StreamedUpload::open(call, vector)?);
        Ok(self.uploads.len() - 1)
    }

    pub fn payload(&self, index: usize) -> InputPayload {
        let StreamedUpload { upload, copy } = &self.uploads[index];
        InputPayload { payload: upload.payload.clone(), copy: copy.clone() }
    }

    pub fn payloads(&self) -> impl Iterator<Item = &Arc<UploadBuffer>> {
        self.uploads.iter().map(|StreamedUpload { upload, .. }| &upload.payload)
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
        self.uploads.iter().map(|StreamedUpload { upload, .. }| upload.begin_stream()).collect()
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
        for StreamedUpload { upload, .. } in &self.uploads {
            self.state.uploads.remove(upload);
            if failure.is_some() {
                // Ends the other streams that carry it. The call of the job reports the reason.
                upload.set_outcome(Err(Error::Cancelled));
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
            self.end(Some(&Error::Deadline.into()));
        } else {
            self.uploads.iter().for_each(|streamed| streamed.upload.mark_abandoned());
        }
    }
}
