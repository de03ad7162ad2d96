//! Encoded elements from outside. The engine that computes with them also checks them.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::JobControl;
use crate::{
    buffer::ByteSource,
    curve::{
        Fr,
        points::BadElement,
        scalars::{ScalarEncoding, Scalars, decode_fr},
    },
    error::{Error, FieldProblem, Result},
};

/// Bytes that one thread reads at a time.
const THREAD_READ_BYTES: usize = 256 << 10;

/// How errors name the elements of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementNames {
    /// The request's field.
    pub field: &'static str,
    /// The index of the first element in that field.
    pub first: u64,
}

/// Elements that have not been checked yet.
#[derive(Clone, Copy)]
pub struct EncodedScalars<'a> {
    /// The encoding of each element.
    pub encoding: ScalarEncoding,
    /// Whether integers of r and above are reduced modulo r; else they are refused.
    pub reduce: bool,
    /// Number of elements.
    pub count: usize,
    /// How errors name the elements.
    pub names: ElementNames,
    /// The encoded bytes.
    pub source: &'a dyn ByteSource,
}

impl<'a> EncodedScalars<'a> {
    /// All elements of `source`, without reduction, named `elements` in errors.
    pub fn new(encoding: ScalarEncoding, count: usize, source: &'a dyn ByteSource) -> Self {
        let names = ElementNames { field: "elements", first: 0 };
        Self { encoding, reduce: false, count, names, source }
    }

    /// Number of encoded bytes.
    pub fn bytes(&self) -> usize {
        self.count * self.encoding.width()
    }

    /// The error for element number `index`.
    pub fn error_at(&self, index: u64, problem: FieldProblem) -> Error {
        Error::element(self.names.field, self.names.first + index, problem)
    }

    /// Decodes the scalars in `buffer`. Parallel in the current rayon pool.
    ///
    /// Errors: `Invalid` for the first scalar that is not canonical.
    pub fn decode_scalars(&self, mut buffer: Zeroizing<Vec<u8>>) -> Result<Scalars> {
        buffer.resize(self.bytes(), 0);
        let pieces = buffer.par_chunks_mut(THREAD_READ_BYTES).enumerate();
        pieces.for_each(|(piece, out)| self.source.read((piece * THREAD_READ_BYTES) as u64, out));
        Scalars::decode(self.encoding, buffer, self.reduce)
            .map_err(|bad| self.error_at(bad.index, bad.problem))
    }

    /// Decodes elements `first..first + out.len()` of Fr. Parallel in the current rayon pool.
    ///
    /// Errors: `Invalid` for the first element that is not below r, or for a narrow encoding; those
    /// of `control`.
    pub fn decode_elements(
        &self,
        first: usize,
        out: &mut [Fr],
        control: &JobControl,
    ) -> Result<()> {
        let step = out.len().clamp(1, THREAD_READ_BYTES / 32);
        let buffer = || Zeroizing::new(vec![0; step * 32]);
        let bad = out.par_chunks_mut(step).enumerate().map_init(buffer, |buffer, (piece, out)| {
            // Refused again below.
            control.check().ok()?;
            let first = (first + piece * step) as u64;
            let bytes = &mut buffer[..out.len() * 32];
            self.source.read(first * 32, bytes);
            let bad = decode_fr(self.encoding, bytes, self.reduce, out).err();
            bad.map(|bad| BadElement { index: first + bad.index, ..bad })
        });
        let first_bad = bad.flatten().min_by_key(|bad| bad.index);
        control.check()?;
        first_bad.map_or(Ok(()), |bad| Err(self.error_at(bad.index, bad.problem)))
    }
}
