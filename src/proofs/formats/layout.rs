//! Layouts of binary files of points, by which files of other libraries are told apart.

use std::borrow::Cow;

use self::LayoutPart::{List, Point, Rest};
use crate::curve::{
    G1Affine, G2Affine,
    Group::{self, G1, G2},
    points::{self, PointEncoding},
};

/// What a file contains, one part after another.
#[derive(Debug, Clone, Copy)]
pub enum LayoutPart {
    /// One point.
    Point(Group),
    /// A count, then that number of points.
    List(Group),
    /// One or more points until the end of the file.
    Rest(Group),
}

/// How the number of points of a list is written.
#[derive(Debug, Clone, Copy)]
enum ListLength {
    /// Little-endian.
    U64,
    /// Big-endian.
    U32,
    /// log2 of the number, as 32 bits, little-endian.
    Log,
}

/// The bytes of coordinates.
#[derive(Debug, Clone, Copy)]
enum CoordinateOrder {
    /// Zcash's encoding: big-endian, with flags in the first byte.
    BigEndian,
    /// arkworks before version 0.4: little-endian, with flags in the last byte.
    LittleEndian,
}

/// The layout of a binary file.
#[derive(Debug)]
pub struct BinaryLayout {
    parts: &'static [LayoutPart],
    length: ListLength,
    order: CoordinateOrder,
    /// Whether the file ends after the parts.
    is_whole: bool,
}

/// A proof of Groth16.
pub const PROOF: &[LayoutPart] = &[Point(G1), Point(G2), Point(G1)];
/// The verifying key of arkworks: alpha, beta, gamma, delta, gamma_abc.
pub const VERIFYING_KEY: &[LayoutPart] = &[Point(G1), Point(G2), Point(G2), Point(G2), List(G1)];
/// The proving key of arkworks: the verifying key, beta, delta, five queries.
pub const PROVING_KEY: &[LayoutPart] = &[
    Point(G1),
    Point(G2),
    Point(G2),
    Point(G2),
    List(G1),
    Point(G1),
    Point(G1),
    List(G1),
    List(G1),
    List(G2),
    List(G1),
    List(G1),
];
/// The verifying key of gnark and bellman: alpha and beta in G1, beta and gamma in G2, delta in
/// both groups, gamma_abc.
pub const GNARK_KEY: &[LayoutPart] =
    &[Point(G1), Point(G1), Point(G2), Point(G2), Point(G1), Point(G2), List(G1)];
/// A proof of gnark, with its commitments and their proof of knowledge.
pub const GNARK_PROOF: &[LayoutPart] = &[Point(G1), Point(G2), Point(G1), List(G1), Point(G1)];

impl BinaryLayout {
    /// log2 of the number of points, and the points in G1; more follows.
    pub const HALO2_SETUP: Self = Self { length: ListLength::Log, ..Self::gnark(&[List(G1)]) };

    /// arkworks' serialization.
    pub const fn ark(parts: &'static [LayoutPart]) -> Self {
        Self { parts, length: ListLength::U64, order: CoordinateOrder::BigEndian, is_whole: true }
    }

    /// The serialization of arkworks before version 0.4.
    pub const fn old_ark(parts: &'static [LayoutPart]) -> Self {
        Self {
            parts,
            length: ListLength::U64,
            order: CoordinateOrder::LittleEndian,
            is_whole: true,
        }
    }

    /// The serialization of gnark and bellman. What follows the parts differs.
    pub const fn gnark(parts: &'static [LayoutPart]) -> Self {
        Self { parts, length: ListLength::U32, order: CoordinateOrder::BigEndian, is_whole: false }
    }

    /// Whether the file has this layout, with compressed or uncompressed points. Of each part, only
    /// some points are decoded.
    pub fn matches(&self, file: &[u8]) -> bool {
        let encodings = [PointEncoding::Compressed, PointEncoding::Uncompressed];
        encodings.into_iter().any(|encoding| self.matches_with(file, encoding).is_some())
    }

    fn matches_with(&self, file: &[u8], encoding: PointEncoding) -> Option<()> {
        let mut rest = file;
        for (index, part) in self.parts.iter().enumerate() {
            let (Point(group) | List(group) | Rest(group)) = *part;
            let width = encoding.point_bytes(group);
            let count = match part {
                Point(_) => 1,
                List(_) => self.length.take(&mut rest)?,
                Rest(_) if rest.len().is_multiple_of(width) => rest.len() / width,
                Rest(_) => return None,
            };
            let points = rest.split_off(..count.checked_mul(width)?)?;
            let Some(last) = count.checked_sub(1) else {
                // An empty list shows nothing, unless other parts come before it.
                if index == 0 {
                    return None;
                } else {
                    continue;
                };
            };
            let mut sample = [0, last / 3, last / 2, last].into_iter();
            let is_point =
                |at: usize| self.is_point(group, encoding, &points[at * width..][..width]);
            if !sample.all(is_point) {
                return None;
            }
        }
        (rest.is_empty() || !self.is_whole).then_some(())
    }

    fn is_point(&self, group: Group, encoding: PointEncoding, bytes: &[u8]) -> bool {
        let bytes = match self.order {
            CoordinateOrder::BigEndian => Cow::Borrowed(bytes),
            CoordinateOrder::LittleEndian => Cow::Owned(to_big_endian(encoding, bytes)),
        };
        match group {
            G1 => points::decode::<G1Affine>(encoding, &bytes).is_ok(),
            G2 => points::decode::<G2Affine>(encoding, &bytes).is_ok(),
        }
    }
}

impl ListLength {
    /// Reads the number of points.
    fn take(self, rest: &mut &[u8]) -> Option<usize> {
        let mut word = || -> Option<[u8; 4]> { rest.split_off(..4)?.try_into().ok() };
        match self {
            Self::U32 => Some(u32::from_be_bytes(word()?) as usize),
            Self::Log => 1_usize.checked_shl(u32::from_le_bytes(word()?)),
            Self::U64 => {
                let bytes = rest.split_off(..8)?;
                usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
            }
        }
    }
}

/// A point in Zcash's encoding, up to the sign of a compressed one.
fn to_big_endian(encoding: PointEncoding, bytes: &[u8]) -> Vec<u8> {
    const COMPRESSED: u8 = 0x80;
    const INFINITY: u8 = 0x40;
    const FLAGS: u8 = 0xe0;
    let mut point = bytes.to_vec();
    let (form, coordinates) = match encoding {
        PointEncoding::Compressed => (COMPRESSED, 1),
        _ => (0, 2),
    };
    let width = point.len() / coordinates;
    point.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    let last = point.len() - width;
    let infinity = point[last] & INFINITY;
    point[last] &= !FLAGS;
    point[0] |= form | infinity;
    point
}
