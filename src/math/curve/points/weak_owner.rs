//! Recognises which allocation some bases belong to.

use std::sync::{Arc, Weak};

use super::{Bases, FileOfPoints, PointOwner, PointSlice};
use crate::curve::{G1Affine, G2Affine, layout::points_as_bytes};

/// A weak reference to the owner of points, to recognise its points later. While it exists, no
/// other owner can be mistaken for this one.
#[derive(Clone)]
pub struct WeakOwner(WeakPoints);

#[derive(Clone)]
enum WeakPoints {
    G1(Weak<dyn PointOwner<G1Affine>>),
    G2(Weak<dyn PointOwner<G2Affine>>),
}

impl WeakOwner {
    /// The owner of `bases`.
    pub fn of(bases: &Bases) -> Self {
        Self(match bases {
            Bases::G1(points) => WeakPoints::G1(Arc::downgrade(&points.owner)),
            Bases::G2(points) => WeakPoints::G2(Arc::downgrade(&points.owner)),
        })
    }

    /// False once the points have been dropped.
    pub fn is_alive(&self) -> bool {
        match &self.0 {
            WeakPoints::G1(owner) => owner.strong_count() > 0,
            WeakPoints::G2(owner) => owner.strong_count() > 0,
        }
    }

    /// The owner's address, as [`Bases::owner_address`] has it. While this reference exists, no
    /// other owner has it.
    pub fn address(&self) -> usize {
        match &self.0 {
            WeakPoints::G1(owner) => owner.as_ptr().cast::<()>() as usize,
            WeakPoints::G2(owner) => owner.as_ptr().cast::<()>() as usize,
        }
    }

    /// Whether `bases` are a range of this owner's points.
    pub fn owns(&self, bases: &Bases) -> bool {
        match (&self.0, bases) {
            (WeakPoints::G1(weak), Bases::G1(of)) => weak.ptr_eq(&Arc::downgrade(&of.owner)),
            (WeakPoints::G2(weak), Bases::G2(of)) => weak.ptr_eq(&Arc::downgrade(&of.owner)),
            _ => false,
        }
    }
}

/// Points of another owner under a new identity.
struct OwnObject<A>(PointSlice<A>);

impl<A: Send + Sync> PointOwner<A> for OwnObject<A> {
    fn points(&self) -> &[A] {
        &self.0
    }

    fn file(&self) -> Option<FileOfPoints<'_>> {
        self.0.file()
    }

    fn is_intact(&self) -> bool {
        self.0.is_intact()
    }

    fn mark_damaged(&self) {
        self.0.mark_damaged();
    }

    fn original(&self) -> Option<&PointSlice<A>> {
        Some(&self.0)
    }
}

/// An identity is given to points of an original owner only: identities of identities would form a
/// chain without end.
fn as_own_object<A: Clone + Send + Sync + 'static>(points: &PointSlice<A>) -> PointSlice<A> {
    let original = points.owner.original().and_then(|all| {
        let guard = points.guard.clone().or_else(|| all.guard.clone());
        Some(all.slice(points.start, points.len)?.with_guard(guard))
    });
    PointSlice::new(Arc::new(OwnObject(original.unwrap_or_else(|| points.clone()))))
}

impl Bases {
    /// All points of the owner.
    pub fn all_of_owner(&self) -> Self {
        match self {
            Self::G1(points) => Self::G1(PointSlice::new(points.owner.clone())),
            Self::G2(points) => Self::G2(PointSlice::new(points.owner.clone())),
        }
    }

    /// The same points as an object, so that nothing takes them for a part of their owner.
    pub fn as_own_object(&self) -> Self {
        match self {
            Self::G1(points) => Self::G1(as_own_object(points)),
            Self::G2(points) => Self::G2(as_own_object(points)),
        }
    }

    /// The owner's address: differs from that of all other owners that are alive.
    pub fn owner_address(&self) -> usize {
        match self {
            Self::G1(points) => Arc::as_ptr(&points.owner).cast::<()>() as usize,
            Self::G2(points) => Arc::as_ptr(&points.owner).cast::<()>() as usize,
        }
    }

    /// The index of the first of these points among the owner's points.
    pub fn offset_in_owner(&self) -> usize {
        match self {
            Self::G1(points) => points.start,
            Self::G2(points) => points.start,
        }
    }

    /// The file that the points are mapped from, if there is one.
    pub fn file(&self) -> Option<FileOfPoints<'_>> {
        match self {
            Self::G1(points) => points.file(),
            Self::G2(points) => points.file(),
        }
    }

    /// The points as they are in memory: Montgomery limbs, x before y.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::G1(points) => points_as_bytes(points),
            Self::G2(points) => points_as_bytes(points),
        }
    }
}

#[cfg(test)]
mod tests {
    use ark_ec::AffineRepr;

    use super::*;

    #[test]
    fn new_identities_form_no_chain() {
        let points = vec![G1Affine::generator(); 4];
        let all = Bases::G1(PointSlice::new(Arc::new(points.clone())));
        let mut own = all.slice(1, 3).unwrap();
        for _ in 0..1_000_000 {
            let next = own.as_own_object();
            assert!(!WeakOwner::of(&own).owns(&next), "another object");
            own = next;
        }
        let last = own.slice(1, 2).unwrap().as_own_object();
        drop((own, all));
        assert_eq!(last.as_bytes(), points_as_bytes(&points[2..]));
    }

    #[test]
    fn what_points_keep_is_kept_by_their_new_identities() {
        let guard: Arc<dyn Send + Sync> = Arc::new(());
        let all = Bases::G1(PointSlice::new(Arc::new(vec![G1Affine::generator(); 2])));
        let kept = all.with_guard(Some(guard.clone())).as_own_object().as_own_object();
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(kept);
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
