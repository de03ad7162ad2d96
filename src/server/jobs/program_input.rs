//! The elements of an input of a program: a part of a payload.

use std::{ops::Range, sync::Arc};

use zeroize::Zeroizing;

use crate::{buffer::UploadBuffer, engine::JobControl, error::Result, program::InputSpec};

/// Bytes of a region that are copied at a time.
const COPIED_BYTES: usize = 256 << 10;

#[derive(Clone)]
pub struct ProgramJobInput {
    pub payload: Arc<UploadBuffer>,
    /// Memory for a copy of a payload in a region, if the job reads it again when the client or the
    /// job itself may have changed it.
    pub copy: Option<Arc<UploadBuffer>>,
    pub spec: InputSpec,
    /// Index of the first element.
    pub first: u64,
}

impl ProgramJobInput {
    pub(super) fn byte_range(&self) -> Range<u64> {
        self.bytes_of(&(0..self.spec.count))
    }

    fn bytes_of(&self, elements: &Range<u64>) -> Range<u64> {
        let width = self.spec.encoding.width() as u64;
        (self.first + elements.start) * width..(self.first + elements.end) * width
    }

    pub(super) fn has_arrived(&self) -> bool {
        self.payload.has_received(self.byte_range())
    }

    /// Whether these elements of the input have arrived.
    pub(super) fn has_received(&self, elements: &Range<u64>) -> bool {
        self.payload.has_received(self.bytes_of(elements))
    }

    /// If the input, which has arrived, has memory for a copy, fills it and reads it from now on.
    pub(super) fn make_copy(&mut self, control: &JobControl) -> Result<()> {
        let Some(copy) = self.copy.take() else { return Ok(()) };
        let mut bytes = Zeroizing::new(vec![0; COPIED_BYTES.min(copy.len() as usize)]);
        for start in (0..copy.len()).step_by(COPIED_BYTES) {
            control.check()?;
            let len = (copy.len() - start).min(COPIED_BYTES as u64) as usize;
            self.payload.read(start, &mut bytes[..len]);
            copy.write(start, &bytes[..len])?;
        }
        self.payload = copy;
        Ok(())
    }
}
