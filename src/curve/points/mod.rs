//! Points: shared slices of checked bases, sums, and their encodings.

mod coordinate;
mod encoding;
mod sums;
mod weak_owner;

use std::{ops::Deref, sync::Arc};

use ark_bls12_381::{g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup,
    short_weierstrass::{Affine, Projective},
};

pub(in crate::curve) use encoding::element_count;
pub use encoding::{decode, decode_sums, encode, encode_sums};
pub use weak_owner::WeakOwner;

use super::{Fr, G1Affine, G1Projective, G2Affine, G2Projective, Group, layout};
use crate::error::FieldProblem;

/// The first bad element of a batch, by its index in that batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("[{index}]: {problem}")]
pub struct BadElement {
    /// The element's index.
    pub index: u64,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// An affine point of G1 or G2. Sealed: only [`G1Affine`] and [`G2Affine`] implement it.
pub trait CurvePoint:
    AffineRepr<ScalarField = Fr, Group: CurveGroup<Affine = Self>>
    + sealed::PointCodec
    + Copy
    + Send
    + Sync
    + 'static
{
    /// The group of the points.
    const GROUP: Group;

    /// Wraps the points in the variant of their group.
    fn into_bases(points: PointSlice<Self>) -> Bases;

    /// The points, if they belong to this group.
    fn from_bases(bases: &Bases) -> Option<&PointSlice<Self>>;

    /// Wraps writable points in the variant of their group.
    fn points_mut(points: &mut [Self]) -> PointsMut<'_>;

    /// Wraps the sums in the variant of their group.
    fn into_sums(sums: Vec<Self::Group>) -> MsmSums;

    /// The sums, if they belong to this group.
    fn from_sums(sums: MsmSums) -> Option<Vec<Self::Group>>;
}

mod sealed {
    use super::{AffineRepr, FieldProblem, PointEncoding};

    /// Encodings of one point, for slices of exactly its length.
    pub trait PointCodec: AffineRepr {
        fn read(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem>;
        fn read_projective(bytes: &[u8]) -> Result<Self::Group, FieldProblem>;
        fn write_projective(point: &Self::Group, out: &mut [u8]);
    }
}

// Keyed on the curve's config: rustc does not see that the aliases G1Affine and G2Affine differ.
macro_rules! curve_point {
    ($group:ident, $affine:ty, $projective:ty) => {
        impl CurvePoint for $affine {
            const GROUP: Group = Group::$group;

            fn into_bases(points: PointSlice<Self>) -> Bases {
                Bases::$group(points)
            }

            fn from_bases(bases: &Bases) -> Option<&PointSlice<Self>> {
                if let Bases::$group(points) = bases { Some(points) } else { None }
            }

            fn points_mut(points: &mut [Self]) -> PointsMut<'_> {
                PointsMut::$group(points)
            }

            fn into_sums(sums: Vec<$projective>) -> MsmSums {
                MsmSums::$group(sums)
            }

            fn from_sums(sums: MsmSums) -> Option<Vec<$projective>> {
                if let MsmSums::$group(sums) = sums { Some(sums) } else { None }
            }
        }

        impl sealed::PointCodec for $affine {
            fn read(encoding: PointEncoding, bytes: &[u8]) -> Result<Self, FieldProblem> {
                encoding::read(encoding, bytes)
            }

            fn read_projective(bytes: &[u8]) -> Result<$projective, FieldProblem> {
                encoding::read_projective(bytes)
            }

            fn write_projective(point: &$projective, out: &mut [u8]) {
                encoding::write_projective(point, out);
            }
        }
    };
}

curve_point!(G1, Affine<g1::Config>, Projective<g1::Config>);
curve_point!(G2, Affine<g2::Config>, Projective<g2::Config>);

/// The content hash of points: BLAKE3 over their Montgomery bytes, with a derived key per group.
/// With the `server` feature it runs in parallel on the current rayon pool.
pub fn content_hash<A: CurvePoint>(points: &[A]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(match A::GROUP {
        Group::G1 => "capstan v1 bases g1",
        Group::G2 => "capstan v1 bases g2",
    });
    let bytes = layout::points_as_bytes(points);
    #[cfg(feature = "server")]
    hasher.update_rayon(bytes);
    #[cfg(not(feature = "server"))]
    hasher.update(bytes);
    hasher.finalize().into()
}

/// A range of checked points that jobs share: a vector, or a file mapped into memory.
#[derive(Clone)]
pub struct PointSlice<A> {
    owner: Arc<dyn AsRef<[A]> + Send + Sync>,
    start: usize,
    len: usize,
}

impl<A> PointSlice<A> {
    /// All points of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[A]> + Send + Sync>) -> Self {
        let len = (*owner).as_ref().len();
        Self { owner, start: 0, len }
    }

    /// Points `start..start + len` of this slice; `None` if it is shorter.
    pub fn slice(&self, start: usize, len: usize) -> Option<Self> {
        (start.checked_add(len)? <= self.len).then(|| Self {
            owner: self.owner.clone(),
            start: self.start + start,
            len,
        })
    }
}

impl<A> Deref for PointSlice<A> {
    type Target = [A];

    fn deref(&self) -> &[A] {
        &(*self.owner).as_ref()[self.start..self.start + self.len]
    }
}

/// Checked points of either group.
#[derive(Clone)]
pub enum Bases {
    /// Points of G1.
    G1(PointSlice<G1Affine>),
    /// Points of G2.
    G2(PointSlice<G2Affine>),
}

/// Writable points of either group.
pub enum PointsMut<'a> {
    /// Points of G1.
    G1(&'a mut [G1Affine]),
    /// Points of G2.
    G2(&'a mut [G2Affine]),
}

impl Bases {
    /// The group of the points.
    pub fn group(&self) -> Group {
        match self {
            Self::G1(_) => Group::G1,
            Self::G2(_) => Group::G2,
        }
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        match self {
            Self::G1(points) => points.len(),
            Self::G2(points) => points.len(),
        }
    }

    /// True if there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Points `start..start + len`; `None` if there are fewer.
    pub fn slice(&self, start: usize, len: usize) -> Option<Self> {
        Some(match self {
            Self::G1(points) => Self::G1(points.slice(start, len)?),
            Self::G2(points) => Self::G2(points.slice(start, len)?),
        })
    }
}

/// Results of MSMs, one point per scalar vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MsmSums {
    /// Points of G1.
    G1(Vec<G1Projective>),
    /// Points of G2.
    G2(Vec<G2Projective>),
}

impl MsmSums {
    /// The group of the sums.
    pub fn group(&self) -> Group {
        match self {
            Self::G1(_) => Group::G1,
            Self::G2(_) => Group::G2,
        }
    }

    /// The number of sums.
    pub fn len(&self) -> usize {
        match self {
            Self::G1(sums) => sums.len(),
            Self::G2(sums) => sums.len(),
        }
    }

    /// True if there are no sums.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Encodings of points. See `proto/capstan/v1/types.proto` for each layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PointEncoding {
    /// x with flags, Zcash's format.
    Compressed,
    /// x and y with flags, Zcash's format.
    Uncompressed,
    /// x and y as Montgomery limbs.
    Montgomery,
}

impl PointEncoding {
    /// Bytes of one point.
    pub const fn point_bytes(self, group: Group) -> usize {
        match self {
            Self::Compressed => group.coordinate_bytes(),
            Self::Uncompressed | Self::Montgomery => group.affine_bytes(),
        }
    }
}

/// Encodings of sums. See `proto/capstan/v1/types.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumEncoding {
    /// x with flags, Zcash's format.
    Compressed,
    /// x and y with flags, Zcash's format.
    Uncompressed,
    /// Jacobian X, Y, Z as Montgomery limbs.
    Projective,
}

impl SumEncoding {
    /// Bytes of one point.
    pub const fn point_bytes(self, group: Group) -> usize {
        match self {
            Self::Compressed => group.coordinate_bytes(),
            Self::Uncompressed => group.affine_bytes(),
            Self::Projective => 3 * group.coordinate_bytes(),
        }
    }
}
