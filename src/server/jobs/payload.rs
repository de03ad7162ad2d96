//! A job's view of its payload: ranges that it can read once they have arrived.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use super::JobWaker;
use crate::{
    buffer::{ByteSource, PayloadView, ProgressListener, UploadBuffer},
    error::Result,
};

pub struct JobPayload {
    upload: Arc<UploadBuffer>,
    _listener: Arc<ProgressListener>,
}

impl JobPayload {
    /// Wakes the job when bytes arrive or the upload fails.
    pub fn new(upload: Arc<UploadBuffer>, waker: JobWaker) -> Self {
        let listener: Arc<ProgressListener> = Arc::new(move || waker.wake());
        upload.listen(&listener);
        Self { upload, _listener: listener }
    }

    /// True if [`JobPayload::range`] returns the range or an error.
    pub fn is_ready(&self, range: Range<u64>) -> bool {
        self.upload.has_received(range) || self.upload.failure().is_some()
    }

    /// The bytes of `range`, without a copy; `None` if some have not arrived yet.
    pub fn range(&self, range: Range<u64>) -> Result<Option<PayloadView<'_>>> {
        match PayloadView::received(&self.upload, range) {
            None => self.upload.failure().map_or(Ok(None), Err),
            view => Ok(view),
        }
    }

    /// A copy of the bytes of `range`; `None` if some have not arrived yet.
    pub fn bytes(&self, range: Range<u64>) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let len = (range.end - range.start) as usize;
        let Some(view) = self.range(range)? else { return Ok(None) };
        let mut bytes = Zeroizing::new(vec![0; len]);
        view.read(0, &mut bytes);
        Ok(Some(bytes))
    }
}
