//! Encodings of elements, for code that computes in any field.

use rayon::prelude::*;

use super::{ScalarEncoding, decode_fr, encode_fr};
use crate::{
    curve::{
        Fr, FrField,
        batch::{BadElement, decode_batch},
        layout,
    },
    error::FieldProblem,
    field::{Element31, Field31, Gf2Words, IntegerLimbs, VectorElements},
};

/// Elements that one task decodes: about ten microseconds of work.
const ELEMENTS_PER_TASK: usize = 1 << 14;

/// A field whose elements are decoded and encoded. Both run in parallel on the current rayon pool.
pub trait ElementCodec: VectorElements {
    /// With `reduce`, integers of the modulus and above are reduced.
    ///
    /// Shape: `bytes` has as many elements as `out`.
    /// Errors: the first bad element, with `NotCanonical`; `OutOfRange` for an encoding that does
    /// not hold every element of the field. The contents of `out` are then unspecified.
    fn decode(
        self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        reduce: bool,
        out: &mut [Self::Element],
    ) -> Result<(), BadElement>;

    /// Shape: `out` has the encoding's width for each element; `encoding` holds every element of
    /// the field.
    fn encode(self, encoding: ScalarEncoding, elements: &[Self::Element], out: &mut [u8]);

    /// The bytes of elements as [`ScalarEncoding::in_memory`] says.
    fn as_bytes(elements: &[Self::Element]) -> &[u8];
}

impl ElementCodec for FrField {
    fn decode(
        self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        reduce: bool,
        out: &mut [Fr],
    ) -> Result<(), BadElement> {
        decode_fr(encoding, bytes, reduce, out)
    }

    fn encode(self, encoding: ScalarEncoding, elements: &[Fr], out: &mut [u8]) {
        encode_fr(encoding, elements, out);
    }

    fn as_bytes(elements: &[Fr]) -> &[u8] {
        layout::fr_as_bytes(elements)
    }
}

impl ElementCodec for Field31 {
    fn decode(
        self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        reduce: bool,
        out: &mut [Element31],
    ) -> Result<(), BadElement> {
        let is_montgomery = match encoding {
            ScalarEncoding::Canonical31 => false,
            ScalarEncoding::Montgomery31 => true,
            _ => return Err(BadElement { index: 0, problem: FieldProblem::OutOfRange }),
        };
        let p = self.modulus();
        decode_batch(out, bytes, 4, ELEMENTS_PER_TASK, |bytes| {
            let word = u32::from_le_bytes(bytes.try_into().expect("an element is 4 bytes"));
            let word = if reduce { word % p } else { word };
            let montgomery = self.montgomery_element(word).ok_or(FieldProblem::NotCanonical)?;
            Ok(if is_montgomery { montgomery } else { self.element(word) })
        })
    }

    fn encode(self, encoding: ScalarEncoding, elements: &[Element31], out: &mut [u8]) {
        assert!(encoding.holds(self.id()), "the encoding does not hold every element");
        assert_eq!(out.len(), 4 * elements.len(), "4 bytes per element");
        if encoding == ScalarEncoding::Montgomery31 {
            out.copy_from_slice(Self::as_bytes(elements));
            return;
        }
        let tasks = elements.par_chunks(ELEMENTS_PER_TASK);
        out.par_chunks_mut(4 * ELEMENTS_PER_TASK).zip(tasks).for_each(|(out, elements)| {
            for (out, element) in out.as_chunks_mut().0.iter_mut().zip(elements) {
                *out = self.value(*element).to_le_bytes();
            }
        });
    }

    fn as_bytes(elements: &[Element31]) -> &[u8] {
        const { assert!(cfg!(target_endian = "little")) };
        bytemuck::cast_slice(elements)
    }
}

/// All words are canonical.
impl ElementCodec for Gf2Words {
    fn decode(
        self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        _reduce: bool,
        out: &mut [u64],
    ) -> Result<(), BadElement> {
        if !encoding.holds(self.id()) {
            return Err(BadElement { index: 0, problem: FieldProblem::OutOfRange });
        }
        decode_batch(out, bytes, 8, ELEMENTS_PER_TASK, |bytes| {
            Ok(u64::from_le_bytes(bytes.try_into().expect("a word is 8 bytes")))
        })
    }

    fn encode(self, encoding: ScalarEncoding, elements: &[u64], out: &mut [u8]) {
        assert!(encoding.holds(self.id()), "the encoding does not hold every element");
        assert_eq!(out.len(), 8 * elements.len(), "8 bytes per element");
        out.copy_from_slice(Self::as_bytes(elements));
    }

    fn as_bytes(elements: &[u64]) -> &[u8] {
        const { assert!(cfg!(target_endian = "little")) };
        bytemuck::cast_slice(elements)
    }
}

/// All limbs are canonical.
impl ElementCodec for IntegerLimbs {
    fn decode(
        self,
        encoding: ScalarEncoding,
        bytes: &[u8],
        _reduce: bool,
        out: &mut [u32],
    ) -> Result<(), BadElement> {
        if !encoding.holds(self.id()) {
            return Err(BadElement { index: 0, problem: FieldProblem::OutOfRange });
        }
        decode_batch(out, bytes, 4, ELEMENTS_PER_TASK, |bytes| {
            Ok(u32::from_le_bytes(bytes.try_into().expect("a limb is 4 bytes")))
        })
    }

    fn encode(self, encoding: ScalarEncoding, elements: &[u32], out: &mut [u8]) {
        assert!(encoding.holds(self.id()), "the encoding does not hold every element");
        assert_eq!(out.len(), 4 * elements.len(), "4 bytes per element");
        out.copy_from_slice(Self::as_bytes(elements));
    }

    fn as_bytes(elements: &[u32]) -> &[u8] {
        const { assert!(cfg!(target_endian = "little")) };
        bytemuck::cast_slice(elements)
    }
}
