//! Parts of scalar vectors, for servers that compute a part of a job.

use std::ops::Range;

use bytes::Bytes;
use capstan_math::{curve::scalars::ScalarEncoding, error::FieldProblem};
use zeroize::Zeroizing;

use crate::{
    ScalarInput,
    error::{ClientError, Result},
    options::ScalarPayload,
    transfer::payload::OutgoingBytes,
};

/// Scalar vectors of equal length, one after another.
pub(super) struct ScalarRows<'a> {
    encoding: ScalarEncoding,
    bytes: OutgoingBytes<'a>,
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
    pub fn new(input: ScalarInput<'a>, vectors: usize, len: usize) -> Result<Self> {
        // A vector on a server may not be on the one that has the bases.
        let payload = input.into_payload();
        let ScalarPayload { encoding, bytes } =
            payload.map_err(|_| ClientError::input("scalars", FieldProblem::OutOfRange))?;
        let (expected, width) = (vectors as u64 * len as u64, encoding.width() as u64);
        let got = bytes.len() / width;
        if got != expected || !bytes.len().is_multiple_of(width) {
            return Err(ClientError::length("scalars", expected, got));
        }
        Ok(Self { encoding, bytes, len })
    }

    /// The scalars of a part. They are copied only if they do not lie side by side, or if a server
    /// shares their memory; the copy is wiped.
    pub fn part(&self, part: &RowsPart) -> ScalarInput<'a> {
        let RowsPart { vectors, elements } = part;
        if vectors.len() > 1 && elements.len() < self.len {
            return self.gather(part);
        }
        let start = vectors.start * self.len + elements.start;
        let end = start + vectors.len() * elements.len();
        let (encoding, width) = (self.encoding, self.encoding.width());
        let range = start * width..end * width;
        match &self.bytes {
            OutgoingBytes::Secret(bytes) | OutgoingBytes::Public(bytes) => {
                ScalarInput::Bytes { encoding, bytes: &bytes[range] }
            }
            OutgoingBytes::Shared(bytes) => {
                ScalarInput::Shared { encoding, bytes: bytes.slice(range) }
            }
            OutgoingBytes::Region { .. } => self.gather(part),
        }
    }

    fn gather(&self, part: &RowsPart) -> ScalarInput<'a> {
        let (width, elements) = (self.encoding.width(), &part.elements);
        let row_bytes = elements.len() * width;
        let mut gathered = Zeroizing::new(vec![0_u8; part.vectors.len() * row_bytes]);
        for (row, vector) in part.vectors.clone().enumerate() {
            let start = (vector * self.len + elements.start) * width;
            self.bytes.read(start, &mut gathered[row * row_bytes..][..row_bytes]);
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
    use capstan_math::curve::Fr;

    use super::*;
    use crate::transfer::copy_pool::CopyPool;

    fn bytes_of(input: ScalarInput<'_>) -> Vec<u8> {
        let bytes = input.into_payload().map_or_else(|_| unreachable!(), |payload| payload.bytes);
        bytes.as_single_chunk(&CopyPool::default()).to_vec()
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
            let rows = ScalarRows::new(input.clone(), 3, 4).unwrap();
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
            assert!(ScalarRows::new(input.clone(), 3, 5).is_err());
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
