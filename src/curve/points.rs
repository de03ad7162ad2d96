//! Points: shared slices of checked bases, sums, and their encodings.

use std::{ops::Deref, sync::Arc};

use super::{G1Affine, G1Projective, G2Affine, G2Projective, Group};

/// A range of checked points that several jobs may share: a vector, or a file mapped into memory.
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

    /// Points `start..start + len` of this slice; `None` where it does not reach that far.
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

impl Bases {
    /// Which group the points are of.
    pub fn group(&self) -> Group {
        match self {
            Self::G1(_) => Group::G1,
            Self::G2(_) => Group::G2,
        }
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        match self {
            Self::G1(points) => points.len(),
            Self::G2(points) => points.len(),
        }
    }

    /// True where there is no point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Points `start..start + len`; `None` where there are fewer.
    pub fn slice(&self, start: usize, len: usize) -> Option<Self> {
        Some(match self {
            Self::G1(points) => Self::G1(points.slice(start, len)?),
            Self::G2(points) => Self::G2(points.slice(start, len)?),
        })
    }
}

/// What MSMs gave, one point a scalar vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sums {
    /// Points of G1.
    G1(Vec<G1Projective>),
    /// Points of G2.
    G2(Vec<G2Projective>),
}

/// How points are written. See `proto/capstan/v1/types.proto` for each layout.
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

/// How sums are written. See `proto/capstan/v1/types.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultEncoding {
    /// x with flags, Zcash's format.
    Compressed,
    /// x and y with flags, Zcash's format.
    Uncompressed,
    /// Jacobian X, Y, Z as Montgomery limbs.
    Projective,
}

impl ResultEncoding {
    /// Bytes of one point.
    pub const fn point_bytes(self, group: Group) -> usize {
        match self {
            Self::Compressed => group.coordinate_bytes(),
            Self::Uncompressed => group.affine_bytes(),
            Self::Projective => 3 * group.coordinate_bytes(),
        }
    }
}
