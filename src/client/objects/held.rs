//! Objects that this process holds, so that it can put them again: a server that has restarted, or
//! another one behind the same proxy, does not know them.

use std::{ops::Range, sync::Arc};

use capstan_math::{
    curve::points::{Bases, PointOwner, PointSlice},
    sparse::SparseMatrix,
};

use crate::CurvePoint;

pub(crate) struct HeldObject {
    /// The hash of the content.
    pub id: [u8; 32],
    pub content: HeldContent,
    pub label: String,
    pub persist: bool,
}

pub(crate) enum HeldContent {
    Bases(Bases),
    Matrix(SparseMatrix),
}

/// Points that the caller shares.
struct SharedPoints<A>(Arc<[A]>);

impl<A: Send + Sync> PointOwner<A> for SharedPoints<A> {
    fn points(&self) -> &[A] {
        &self.0
    }
}

impl HeldContent {
    /// A range of points, which must be in bounds.
    pub fn points<A: CurvePoint>(points: Arc<[A]>, range: Range<usize>) -> Self {
        let all = PointSlice::new(Arc::new(SharedPoints(points)));
        let part = all.slice(range.start, range.len()).expect("in bounds");
        Self::Bases(A::into_bases(part))
    }
}
