//! A job's view of its payload: ranges that it can read once they have arrived.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use super::JobWaker;
use crate::{
    buffer::{ByteSource, PayloadView, ProgressListener, UploadBuffer},
    error::Result,
};

/// A payload whose changes wake the job.
pub struct JobPayload {
    arrival: Arc<UploadBuffer>,
    _listener: Arc<ProgressListener>,
}

impl JobPayload {
    /// Wakes the job when bytes arrive or the upload fails.
    pub fn new(arrival: Arc<UploadBuffer>, wake: JobWaker) -> Self {
        let listener: Arc<ProgressListener> = Arc::new(move || wake.wake());
        arrival.listen(&listener);
        Self { arrival, _listener: listener }
    }

    /// True if [`JobPayload::range`] returns the range or an error.
    pub fn ready(&self, range: Range<u64>) -> bool {
        self.arrival.has_received(range) || self.arrival.failure().is_some()
    }

    /// The bytes of `range`, without a copy; `None` if some have not arrived yet.
    ///
    /// Errors: the upload's failure.
    pub fn range(&self, range: Range<u64>) -> Result<Option<PayloadView<'_>>> {
        match PayloadView::received(&self.arrival, range) {
            None => self.arrival.failure().map_or(Ok(None), Err),
            part => Ok(part),
        }
    }

    /// A copy of the bytes of `range`; `None` if some have not arrived yet.
    ///
    /// Errors: the upload's failure.
    pub fn bytes(&self, range: Range<u64>) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let len = (range.end - range.start) as usize;
        let Some(part) = self.range(range)? else { return Ok(None) };
        let mut bytes = Zeroizing::new(vec![0; len]);
        part.read(0, &mut bytes);
        Ok(Some(bytes))
    }
}
