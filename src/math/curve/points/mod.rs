//! Points: shared slices of checked bases, sums, and their encodings.

mod codec;
mod coordinate;
mod encoding;
mod sums;
mod weak_owner;

use std::{ops::Deref, os::fd::BorrowedFd, sync::Arc};

use ark_bls12_381::{g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup,
    short_weierstrass::{Affine, Projective},
};

pub use codec::{PointEncoding, SumEncoding};
pub use encoding::{decode, decode_sums, encode, encode_sums};
pub use weak_owner::WeakOwner;

pub use super::batch::BadElement;
use super::{
    Fr, G1Affine, G1Projective, G2Affine, G2Projective, Group,
    layout::{self, LimbLayout},
};
use crate::hash;

/// An affine point of G1 or G2. Sealed: only [`G1Affine`] and [`G2Affine`] implement it.
pub trait CurvePoint:
    AffineRepr<ScalarField = Fr, Group: CurveGroup<Affine = Self>>
    + codec::PointCodec
    + LimbLayout
    + Send
    + Sync
    + 'static
{
    /// The group of the points.
    const GROUP: Group;

    /// Wraps the points in the variant of their group.
    fn into_bases(points: PointSlice<Self>) -> Bases;

    /// Wraps writable points in the variant of their group.
    fn points_mut(points: &mut [Self]) -> PointsMut<'_>;

    /// Wraps the sums in the variant of their group.
    fn into_sums(sums: Vec<Self::Group>) -> MsmSums;

    /// The sums, if they belong to this group.
    fn from_sums(sums: MsmSums) -> Option<Vec<Self::Group>>;
}

// Keyed on the curve's config: rustc does not see that the aliases G1Affine and G2Affine differ.
macro_rules! curve_point {
    ($group:ident, $affine:ty, $projective:ty) => {
        impl CurvePoint for $affine {
            const GROUP: Group = Group::$group;

            fn into_bases(points: PointSlice<Self>) -> Bases {
                Bases::$group(points)
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
    };
}

curve_point!(G1, Affine<g1::Config>, Projective<g1::Config>);
curve_point!(G2, Affine<g2::Config>, Projective<g2::Config>);

/// A hasher for the content hash of points: BLAKE3 over their Montgomery bytes, with a derived key
/// per group.
pub fn content_hasher(group: Group) -> blake3::Hasher {
    blake3::Hasher::new_derive_key(match group {
        Group::G1 => "capstan v1 bases g1",
        Group::G2 => "capstan v1 bases g2",
    })
}

/// The content hash of points: BLAKE3 over their Montgomery bytes, with a derived key per group.
/// With the feature `parallel` (in `capstan`, with `server`) it runs in parallel on the current
/// rayon pool.
pub fn content_hash<A: CurvePoint>(points: &[A]) -> [u8; 32] {
    let mut hasher = content_hasher(A::GROUP);
    hash::update(&mut hasher, layout::points_as_bytes(points));
    hasher.finalize().into()
}

/// Holds points that jobs share.
pub trait PointOwner<A>: Send + Sync {
    /// All points.
    fn points(&self) -> &[A];

    /// The file that they are mapped from, if there is one.
    fn file(&self) -> Option<FileOfPoints<'_>> {
        None
    }

    /// False if some points could not be read from their file, and were read as zeros.
    fn is_intact(&self) -> bool {
        true
    }

    /// Notes that another process could not read some points from their file.
    fn mark_damaged(&self) {}

    /// The points of another owner, if this one only gives them a new identity.
    fn original(&self) -> Option<&PointSlice<A>> {
        None
    }
}

/// A file that nobody changes, which holds points as Montgomery limbs.
#[derive(Debug, Clone, Copy)]
pub struct FileOfPoints<'a> {
    /// The open file.
    pub file: BorrowedFd<'a>,
    /// The first byte of the points.
    pub offset: u64,
}

impl<A: Send + Sync> PointOwner<A> for Vec<A> {
    fn points(&self) -> &[A] {
        self
    }
}

/// A range of checked points that jobs share: a vector, or a file mapped into memory.
#[derive(Clone)]
pub struct PointSlice<A> {
    owner: Arc<dyn PointOwner<A>>,
    start: usize,
    len: usize,
    /// Kept as long as the slice and its parts: what the points are charged to, for example.
    guard: Option<Arc<dyn Send + Sync>>,
}

impl<A> PointSlice<A> {
    /// All points of `owner`.
    pub fn new(owner: Arc<dyn PointOwner<A>>) -> Self {
        let len = owner.points().len();
        Self { owner, start: 0, len, guard: None }
    }

    /// Points `start..start + len` of this slice; `None` if it is shorter.
    pub fn slice(&self, start: usize, len: usize) -> Option<Self> {
        (start.checked_add(len)? <= self.len).then(|| Self {
            owner: self.owner.clone(),
            start: self.start + start,
            len,
            guard: self.guard.clone(),
        })
    }

    /// The same points, which keep `guard` instead of what they kept.
    pub fn with_guard(self, guard: Option<Arc<dyn Send + Sync>>) -> Self {
        Self { guard, ..self }
    }

    /// False if some points of the owner could not be read from their file, and were read as zeros.
    pub fn is_intact(&self) -> bool {
        self.owner.is_intact()
    }

    /// Notes that another process could not read some points of the owner from their file.
    pub fn mark_damaged(&self) {
        self.owner.mark_damaged();
    }

    /// The file that the points are mapped from, if there is one.
    pub fn file(&self) -> Option<FileOfPoints<'_>> {
        let FileOfPoints { file, offset } = self.owner.file()?;
        Some(FileOfPoints { file, offset: offset + (self.start * size_of::<A>()) as u64 })
    }
}

impl<A> Deref for PointSlice<A> {
    type Target = [A];

    fn deref(&self) -> &[A] {
        &self.owner.points()[self.start..self.start + self.len]
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

    /// See [`PointSlice::is_intact`].
    pub fn is_intact(&self) -> bool {
        match self {
            Self::G1(points) => points.is_intact(),
            Self::G2(points) => points.is_intact(),
        }
    }

    /// See [`PointSlice::mark_damaged`].
    pub fn mark_damaged(&self) {
        match self {
            Self::G1(points) => points.mark_damaged(),
            Self::G2(points) => points.mark_damaged(),
        }
    }

    /// The same points, which keep `guard` instead of what they kept.
    pub fn with_guard(self, guard: Option<Arc<dyn Send + Sync>>) -> Self {
        match self {
            Self::G1(points) => Self::G1(points.with_guard(guard)),
            Self::G2(points) => Self::G2(points.with_guard(guard)),
        }
    }

    /// What the points keep.
    pub fn guard(&self) -> Option<Arc<dyn Send + Sync>> {
        match self {
            Self::G1(points) => points.guard.clone(),
            Self::G2(points) => points.guard.clone(),
        }
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
