//! The scalars of an MSM: vector after vector in a payload.

use std::{ops::Range, sync::Arc};

use crate::{
    buffer::{PayloadView, UploadBuffer},
    curve::scalars::ScalarEncoding,
    engine::{ElementNames, EncodedScalars},
};

#[derive(Clone)]
pub struct MsmPayload {
    pub upload: Arc<UploadBuffer>,
    pub encoding: ScalarEncoding,
    /// Reduce scalars modulo r.
    pub reduce: bool,
}

impl MsmPayload {
    /// The bytes of scalars that are numbered across all vectors.
    pub fn byte_range(&self, scalars: &Range<usize>) -> Range<u64> {
        let width = self.encoding.width() as u64;
        scalars.start as u64 * width..scalars.end as u64 * width
    }

    /// The payload from the first of `scalars` on, all of which must have arrived.
    pub fn view(&self, scalars: &Range<usize>) -> PayloadView<'_> {
        PayloadView::starting_at(&self.upload, self.byte_range(scalars).start)
    }

    /// The scalars, which `source` holds from its start on.
    pub fn scalars<'a>(
        &self,
        source: &'a PayloadView<'a>,
        scalars: &Range<usize>,
    ) -> EncodedScalars<'a> {
        let &Self { encoding, reduce, .. } = self;
        let names = ElementNames { field: "scalars", first: scalars.start as u64 };
        EncodedScalars { encoding, reduce, count: scalars.len(), names, source }
    }
}
