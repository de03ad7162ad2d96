//! Encoded elements from outside. The engine that computes with them also checks them.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::JobControl;
use crate::{
    buffer::ByteSource,
    curve::{
        points::BadElement,
        scalars::{ElementCodec, ScalarEncoding, Scalars},
    },
    error::{Error, FieldProblem, Result},
    program::InputSpec,
};

/// Bytes that one thread reads at a time.
const THREAD_READ_BYTES: usize = 256 << 10;

/// Elements that have not been checked yet.
#[derive(Clone, Copy)]
pub struct EncodedScalars<'a> {
    /// Their encoding and number.
    pub spec: InputSpec,
    /// The number of the first one in its input, for errors.
    pub first: u64,
    /// The encoded bytes.
    pub source: &'a dyn ByteSource,
}

impl<'a> EncodedScalars<'a> {
    /// All elements of an input.
    pub fn of(spec: InputSpec, source: &'a dyn ByteSource) -> Self {
        Self { spec, first: 0, source }
    }

    /// All elements of an input, which are not reduced.
    pub fn new(encoding: ScalarEncoding, count: usize, source: &'a dyn ByteSource) -> Self {
        Self::of(InputSpec::new(encoding, count as u64), source)
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.spec.count as usize
    }

    /// The error for element number `index` of these.
    pub fn error_at(&self, index: u64, problem: FieldProblem) -> Error {
        Error::element("elements", self.first + index, problem)
    }

    /// Decodes the scalars in `buffer`. Parallel in the current rayon pool.
    ///
    /// Errors: `Invalid` for the first scalar that is not canonical.
    pub fn decode_scalars(&self, mut buffer: Zeroizing<Vec<u8>>) -> Result<Scalars> {
        buffer.resize(self.spec.bytes() as usize, 0);
        let pieces = buffer.par_chunks_mut(THREAD_READ_BYTES).enumerate();
        pieces.for_each(|(piece, out)| self.source.read((piece * THREAD_READ_BYTES) as u64, out));
        Scalars::decode(self.spec.encoding, buffer, self.spec.reduce)
            .map_err(|bad| self.error_at(bad.index, bad.problem))
    }

    /// Decodes elements `first..first + out.len()` of a field. Parallel in the current rayon pool.
    ///
    /// Errors: `Invalid` for the first element that is not below the modulus, or for an encoding
    /// that does not hold every element of the field; those of `control`.
    pub fn decode_elements<F: ElementCodec>(
        &self,
        field: F,
        first: usize,
        out: &mut [F::Element],
        control: &JobControl,
    ) -> Result<()> {
        let width = field.id().element_bytes() as usize;
        let step = out.len().clamp(1, THREAD_READ_BYTES / width);
        let buffer = || Zeroizing::new(vec![0; step * width]);
        let bad = out.par_chunks_mut(step).enumerate().map_init(buffer, |buffer, (piece, out)| {
            // Refused again below.
            control.check().ok()?;
            let first = (first + piece * step) as u64;
            let bytes = &mut buffer[..out.len() * width];
            self.source.read(first * width as u64, bytes);
            let bad = field.decode(self.spec.encoding, bytes, self.spec.reduce, out).err();
            bad.map(|bad| BadElement { index: first + bad.index, ..bad })
        });
        let first_bad = bad.flatten().min_by_key(|bad| bad.index);
        control.check()?;
        first_bad.map_or(Ok(()), |bad| Err(self.error_at(bad.index, bad.problem)))
    }
}
