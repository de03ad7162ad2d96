//! Parts of scalar vectors, for servers that compute a part of a job.

use std::ops::Range;

use bytes::Bytes;
use zeroize::Zeroizing;

use crate::{
    client::{
        ScalarInput,
        error::{ClientError, Result},
    },
    curve::{layout::fr_as_bytes, scalars::ScalarEncoding},
    error::FieldProblem,
};

/// Scalar vectors of equal length, one after another.
pub(super) struct ScalarRows<'a> {
    input: &'a ScalarInput<'a>,
    encoding: ScalarEncoding,
    /// Elements of a vector.
    len: usize,
}

/// A part of each of some vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowsPart {
    pub vectors: Range<usize>,
    pub elements: Range<usize>,
}

impl<'a> ScalarRows<'a> {
    /// `vectors` vectors of `len` elements.
    ///
    /// Errors: `InvalidInput` for any other number of elements, or if they are on a server.
    pub fn new(input: &'a ScalarInput<'a>, vectors: usize, len: usize) -> Result<Self> {
        let (encoding, bytes) = match input {
            ScalarInput::Fr(scalars) => (ScalarEncoding::Montgomery, fr_as_bytes(scalars)),
            ScalarInput::SharedVector(vector) => (ScalarEncoding::Montgomery, fr_as_bytes(vector)),
            ScalarInput::SharedVector31(vector) => {
                (ScalarEncoding::Canonical31, bytemuck::cast_slice(vector))
            }
            ScalarInput::Bytes { encoding, bytes } => (*encoding, *bytes),
            ScalarInput::Shared { encoding, bytes } => (*encoding, bytes.as_ref()),
            // The vector is on one server, which may not be the one that has the bases.
            ScalarInput::Upload(_) | ScalarInput::UploadFrom { .. } => {
                return Err(ClientError::input("scalars", FieldProblem::OutOfRange));
            }
        };
        let (expected, width) = (vectors as u64 * len as u64, encoding.width());
        let got = bytes.len() as u64 / width as u64;
        if got != expected || !bytes.len().is_multiple_of(width) {
            return Err(ClientError::length("scalars", expected, got));
        }
        Ok(Self { input, encoding, len })
    }

    /// The scalars of a part. They are copied only if they do not lie side by side; the copy is
    /// wiped.
    pub fn part(&self, part: &RowsPart) -> ScalarInput<'a> {
        let RowsPart { vectors, elements } = part;
        if vectors.len() > 1 && elements.len() < self.len {
            return self.gather(part);
        }
        let start = vectors.start * self.len + elements.start;
        let range = start..start + vectors.len() * elements.len();
        let width = self.encoding.width();
        let of_bytes = range.start * width..range.end * width;
        match self.input {
            ScalarInput::Fr(scalars) => ScalarInput::Fr(&scalars[range]),
            ScalarInput::SharedVector(vector) => ScalarInput::Fr(&vector[range]),
            ScalarInput::SharedVector31(vector) => vector[range].into(),
            ScalarInput::Bytes { encoding, bytes } => {
                ScalarInput::Bytes { encoding: *encoding, bytes: &bytes[of_bytes] }
            }
            ScalarInput::Shared { encoding, bytes } => {
                ScalarInput::Shared { encoding: *encoding, bytes: bytes.slice(of_bytes) }
            }
            ScalarInput::Upload(_) | ScalarInput::UploadFrom { .. } => unreachable!("refused"),
        }
    }

    fn gather(&self, part: &RowsPart) -> ScalarInput<'a> {
        let bytes: &[u8] = match self.input {
            ScalarInput::Fr(scalars) => fr_as_bytes(scalars),
            ScalarInput::SharedVector(vector) => fr_as_bytes(vector),
            ScalarInput::SharedVector31(vector) => bytemuck::cast_slice(vector),
            ScalarInput::Bytes { bytes, .. } => bytes,
            ScalarInput::Shared { bytes, .. } => bytes,
            ScalarInput::Upload(_) | ScalarInput::UploadFrom { .. } => unreachable!("refused"),
        };
        let (width, elements) = (self.encoding.width(), &part.elements);
        // Growing would leave the old contents behind unwiped.
        let capacity = part.vectors.len() * elements.len() * width;
        let mut gathered = Zeroizing::new(Vec::with_capacity(capacity));
        for vector in part.vectors.clone() {
            let start = vector * self.len;
            let range = (start + elements.start) * width..(start + elements.end) * width;
            gathered.extend_from_slice(&bytes[range]);
        }
        ScalarInput::Shared { encoding: self.encoding, bytes: Bytes::from_owner(gathered) }
    }
}

/// Divides `0..len` into at most `count` ranges of almost equal length, none of them empty.
pub(super) fn divide(len: usize, count: usize) -> Vec<Range<usize>> {
    let count = count.clamp(1, len.max(1));
    let border = |number| (len as u128 * number as u128 / count as u128) as usize;
    let ranges = (0..count).map(|number| border(number)..border(number + 1));
    ranges.filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Fr;

    fn bytes_of(input: ScalarInput<'_>) -> Vec<u8> {
        input
            .into_payload()
            .map_or_else(|_| unreachable!(), |payload| payload.bytes.as_slice().to_vec())
    }

    #[test]
    fn parts_are_those_elements_of_those_vectors() {
        let values: Vec<Fr> = (0..12).map(Fr::from).collect();
        let narrow: Vec<u8> = (0..12).collect();
        let encoding = ScalarEncoding::Unsigned(1);
        let shared = Bytes::copy_from_slice(&narrow);
        let inputs = [
            ScalarInput::Fr(&values),
            ScalarInput::Bytes { encoding, bytes: &narrow },
            ScalarInput::Shared { encoding, bytes: shared },
        ];
        for input in &inputs {
            let all = bytes_of(input.clone());
            let width = all.len() / 12;
            let rows = ScalarRows::new(input, 3, 4).unwrap();
            for (vectors, elements) in [(0..3, 0..4), (1..2, 1..3), (0..3, 1..3), (1..3, 3..4)] {
                let part = RowsPart { vectors, elements };
                let expected: Vec<u8> = part
                    .vectors
                    .clone()
                    .flat_map(|vector| part.elements.clone().map(move |at| 4 * vector + at))
                    .flat_map(|at| all[at * width..(at + 1) * width].to_vec())
                    .collect();
                assert_eq!(bytes_of(rows.part(&part)), expected, "{part:?}");
            }
            assert!(ScalarRows::new(input, 3, 5).is_err());
        }
    }

    #[test]
    fn ranges_cover_everything_and_none_is_empty() {
        for (len, count) in [(0, 3), (1, 3), (2, 3), (3, 3), (10, 3), (10, 0), (10, 1)] {
            let ranges = divide(len, count);
            assert_eq!(
                ranges.iter().cloned().flatten().collect::<Vec<_>>(),
                (0..len).collect::<Vec<_>>()
            );
            assert!(ranges.len() <= count.max(1) && ranges.iter().all(|range| !range.is_empty()));
        }
    }
}
