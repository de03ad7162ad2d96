//! The stored objects that a worker has mapped: the server's side.

use std::{collections::HashMap, ops::Range};

use super::{
    link::{WorkerLink, WorkerLost},
    message::{ControlRequest, MapObjectRequest, NamedBases, NamedObjects, ObjectShape},
};
use crate::{
    curve::points::{Bases, WeakOwner},
    error::{EngineError as Error, EngineResult as Result},
    exec::RunOperands,
    region::SharedObject,
    sparse::{SparseMatrix, WeakMatrix},
    sync::Mutex,
};

/// The most ranges of bases that a worker keeps mapped: more than its runs use at the same time,
/// and few enough for its address space.
const RANGES_MAX: usize = 256;

/// Which points of an object a worker maps for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BasesScope {
    /// All points of the object, since other runs use other ranges.
    WholeObject,
    /// Only those that the run uses, as a separate object: other workers have the others.
    OwnRange,
}

/// An object that a run uses.
#[derive(Clone, Copy)]
pub enum UsedObject<'a> {
    Bases(&'a Bases, BasesScope),
    Matrix(&'a SparseMatrix),
}

/// The objects that a worker has mapped, under numbers that only it uses.
#[derive(Default)]
pub struct SentObjects(Mutex<SentObjectList>);

#[derive(Default)]
struct SentObjectList {
    /// Least recently used first.
    objects: Vec<SentObject>,
    last_number: u64,
}

struct SentObject {
    key: SentKey,
    number: u64,
    /// Whether the worker's device keeps it.
    is_pinned: bool,
}

/// Recognises an object that was sent.
enum SentKey {
    Bases {
        owner: WeakOwner,
        /// The points within the owner; `None` for all of them.
        range: Option<Range<usize>>,
    },
    Matrix(WeakMatrix),
}

impl UsedObject<'_> {
    fn key(self) -> SentKey {
        match self {
            Self::Bases(bases, scope) => {
                let owner = WeakOwner::of(bases);
                let range = range_of(bases, scope);
                SentKey::Bases { owner, range }
            }
            Self::Matrix(matrix) => SentKey::Matrix(matrix.downgrade()),
        }
    }

    /// Bytes to copy to a device that does not have it.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bases(bases, _) => bases.len() * bases.group().affine_bytes(),
            Self::Matrix(matrix) => matrix.as_bytes().len(),
        }
    }
}

impl SentKey {
    fn is_of(&self, object: UsedObject<'_>) -> bool {
        match (self, object) {
            (Self::Bases { owner, range }, UsedObject::Bases(bases, scope)) => {
                owner.owns(bases) && *range == range_of(bases, scope)
            }
            (Self::Matrix(sent), UsedObject::Matrix(matrix)) => sent.is_of(matrix),
            _ => false,
        }
    }

    fn is_alive(&self) -> bool {
        match self {
            Self::Bases { owner, .. } => owner.is_alive(),
            Self::Matrix(matrix) => matrix.is_alive(),
        }
    }

    fn owns(&self, bases: &Bases) -> bool {
        matches!(self, Self::Bases { owner, .. } if owner.owns(bases))
    }
}

fn range_of(bases: &Bases, scope: BasesScope) -> Option<Range<usize>> {
    let start = bases.offset_in_owner();
    (scope == BasesScope::OwnRange).then(|| start..start + bases.len())
}

impl SentObjectList {
    /// The number of a known object, which becomes the most recently used one.
    fn find(&mut self, object: UsedObject<'_>) -> Option<u64> {
        let at = self.objects.iter().position(|sent| sent.key.is_of(object))?;
        let sent = self.objects.remove(at);
        let number = sent.number;
        self.objects.push(sent);
        Some(number)
    }

    /// A device that keeps all points need not hold a range of them, too.
    fn scope_on_device(&self, bases: &Bases, scope: BasesScope) -> BasesScope {
        let all = UsedObject::Bases(bases, BasesScope::WholeObject);
        let is_kept = self.objects.iter().find(|sent| sent.key.is_of(all));
        if is_kept.is_some_and(|sent| sent.is_pinned) { BasesScope::WholeObject } else { scope }
    }

    /// Removes the objects that have been dropped. Returns their numbers.
    fn take_dropped(&mut self) -> Vec<u64> {
        let dropped = self.objects.extract_if(.., |sent| !sent.key.is_alive());
        dropped.map(|sent| sent.number).collect()
    }

    /// Evicts the least recently used range if there are too many. Returns its number.
    fn take_oldest_range(&mut self) -> Option<u64> {
        let is_range =
            |sent: &SentObject| matches!(sent.key, SentKey::Bases { range: Some(_), .. });
        let mut ranges = self.objects.iter().enumerate().filter(|(_, sent)| is_range(sent));
        let (oldest, _) = ranges.next()?;
        (ranges.count() + 1 >= RANGES_MAX).then(|| self.objects.remove(oldest).number)
    }

    /// The number of an object in the worker, which maps it if it has not. Objects that have been
    /// dropped since are unmapped.
    fn number(
        &mut self,
        link: &WorkerLink,
        object: UsedObject<'_>,
    ) -> Result<Result<u64>, WorkerLost> {
        let known = self.find(object);
        let mut unused = self.take_dropped();
        if known.is_none() && matches!(object, UsedObject::Bases(_, BasesScope::OwnRange)) {
            unused.extend(self.take_oldest_range());
        }
        unmap(link, unused)?;
        if let Some(number) = known {
            return Ok(Ok(number));
        }
        let number = self.last_number + 1;
        if let Err(error) = map(link, object, number)? {
            return Ok(Err(error));
        }
        self.last_number = number;
        self.objects.push(SentObject { key: object.key(), number, is_pinned: false });
        Ok(Ok(number))
    }
}

impl SentObjects {
    /// Whether the worker has mapped an object, or the one that bases are part of. False while it
    /// maps another one, since this does not wait.
    pub fn contains(&self, object: UsedObject<'_>) -> bool {
        let Some(sent) = self.0.try_lock() else { return false };
        let object = match object {
            UsedObject::Bases(bases, scope) => {
                UsedObject::Bases(bases, sent.scope_on_device(bases, scope))
            }
            matrix @ UsedObject::Matrix(_) => matrix,
        };
        sent.objects.iter().any(|sent| sent.key.is_of(object))
    }

    /// The numbers of the object that `bases` are part of, and of its ranges.
    pub fn numbers_of(&self, bases: &Bases) -> Vec<u64> {
        let sent = self.0.lock();
        let own = sent.objects.iter().filter(|sent| sent.key.owns(bases));
        own.map(|sent| sent.number).collect()
    }

    /// The owner of each number's points.
    pub fn owners(&self) -> HashMap<u64, WeakOwner> {
        let sent = self.0.lock();
        let owners = sent.objects.iter().filter_map(|sent| match &sent.key {
            SentKey::Bases { owner, .. } => Some((sent.number, owner.clone())),
            SentKey::Matrix(_) => None,
        });
        owners.collect()
    }

    /// Notes whether the worker's device keeps the object that `bases` are part of.
    pub fn set_pinned(&self, bases: &Bases, is_pinned: bool) {
        let all = UsedObject::Bases(bases, BasesScope::WholeObject);
        let mut sent = self.0.lock();
        let objects = sent.objects.iter_mut().filter(|sent| sent.key.is_of(all));
        objects.for_each(|sent| sent.is_pinned = is_pinned);
    }

    /// Lets the worker unmap the objects that have been dropped.
    pub fn unmap_dropped(&self, link: &WorkerLink) -> Result<(), WorkerLost> {
        let mut sent = self.0.lock();
        let dropped = sent.take_dropped();
        unmap(link, dropped)
    }

    /// The name of `bases` in the worker, which maps them if it has not.
    pub fn name_bases(
        &self,
        link: &WorkerLink,
        bases: &Bases,
        scope: BasesScope,
    ) -> Result<Result<NamedBases>, WorkerLost> {
        // Single flight: the lock is held while the worker maps an object.
        let mut sent = self.0.lock();
        let scope = sent.scope_on_device(bases, scope);
        let number = sent.number(link, UsedObject::Bases(bases, scope))?;
        let start = match scope {
            BasesScope::WholeObject => bases.offset_in_owner() as u64,
            BasesScope::OwnRange => 0,
        };
        Ok(number.map(|object| NamedBases { object, start, len: bases.len() as u64 }))
    }

    /// The names of a run's objects in the worker, which maps those that it has not.
    pub fn name(
        &self,
        link: &WorkerLink,
        operands: &RunOperands<'_>,
        scope: BasesScope,
    ) -> Result<Result<NamedObjects>, WorkerLost> {
        let mut named = NamedObjects::default();
        for bases in operands.bases {
            match self.name_bases(link, bases, scope)? {
                Ok(name) => named.bases.push(name),
                Err(error) => return Ok(Err(error)),
            }
        }
        for matrix in operands.matrices {
            match self.0.lock().number(link, UsedObject::Matrix(matrix))? {
                Ok(number) => named.matrices.push(number),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(named))
    }

    /// Makes the worker's device forget the objects of a call whose result was wrong.
    pub fn evict_suspects(
        &self,
        link: &WorkerLink,
        operands: &RunOperands<'_>,
    ) -> Result<(), WorkerLost> {
        let suspects = {
            let sent = self.0.lock();
            let is_suspect = |sent: &&SentObject| {
                let mut matrices = operands.matrices.iter().map(UsedObject::Matrix);
                operands.bases.iter().any(|bases| sent.key.owns(bases))
                    || matrices.any(|matrix| sent.key.is_of(matrix))
            };
            sent.objects.iter().filter(is_suspect).map(|sent| sent.number).collect()
        };
        link.control(&ControlRequest::EvictSuspects(suspects), None).map(drop)
    }
}

fn unmap(link: &WorkerLink, numbers: Vec<u64>) -> Result<(), WorkerLost> {
    for number in numbers {
        let _unmapped = link.control(&ControlRequest::DropObject(number), None)?;
    }
    Ok(())
}

/// Lets the worker map an object.
fn map(link: &WorkerLink, object: UsedObject<'_>, number: u64) -> Result<Result<()>, WorkerLost> {
    let internal =
        |problem: String| Error::Internal(format!("a worker cannot map an object: {problem}"));
    let points = match object {
        UsedObject::Bases(bases, BasesScope::WholeObject) => Some(bases.all_of_owner()),
        UsedObject::Bases(bases, BasesScope::OwnRange) => Some(bases.clone()),
        UsedObject::Matrix(_) => None,
    };
    let (shape, shared) = match (object, &points) {
        (UsedObject::Matrix(matrix), _) => {
            (ObjectShape::Matrix(matrix.shape()), SharedObject::of_matrix(matrix))
        }
        (UsedObject::Bases(bases, _), points) => {
            let points = points.as_ref().unwrap_or(bases);
            let shape = ObjectShape::Points { group: points.group(), count: points.len() as u64 };
            (shape, SharedObject::of_bases(points))
        }
    };
    let shared = match shared {
        Ok(shared) => shared,
        Err(error) => return Ok(Err(internal(error.to_string()))),
    };
    let (file, offset) = shared.file();
    let request = MapObjectRequest { object: number, shape, offset };
    let mapped = link.control(&ControlRequest::MapObject(request), Some(file))?;
    Ok(mapped.map(drop).map_err(internal))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ark_ec::AffineRepr as _;

    use super::*;
    use crate::curve::{G1Affine, points::PointSlice};

    fn bases(count: usize) -> Bases {
        Bases::G1(PointSlice::new(Arc::new(vec![G1Affine::generator(); count])))
    }

    impl SentObjectList {
        fn add(&mut self, bases: &Bases, scope: BasesScope) -> u64 {
            self.last_number += 1;
            let key = UsedObject::Bases(bases, scope).key();
            let number = self.last_number;
            self.objects.push(SentObject { key, number, is_pinned: false });
            number
        }
    }

    #[test]
    fn ranges_are_separate_objects() {
        let all = bases(8);
        let mut sent = SentObjectList::default();
        let [low, high] = [0, 4].map(|start| all.slice(start, 4).unwrap());
        let whole = sent.add(&high, BasesScope::WholeObject);
        let own = sent.add(&low, BasesScope::OwnRange);
        for part in [&all, &low, &high] {
            assert_eq!(sent.find(UsedObject::Bases(part, BasesScope::WholeObject)), Some(whole));
        }
        assert_eq!(sent.find(UsedObject::Bases(&low, BasesScope::OwnRange)), Some(own));
        for other in [&high, &all, &bases(4)] {
            assert_eq!(sent.find(UsedObject::Bases(other, BasesScope::OwnRange)), None);
        }
        assert!(sent.take_dropped().is_empty());
        drop((all, low, high));
        assert_eq!(sent.take_dropped(), [whole, own]);
    }

    #[test]
    fn ranges_of_pinned_bases_are_not_sent() {
        let all = bases(8);
        let sent = SentObjects::default();
        let high = all.slice(4, 4).unwrap();
        let own = BasesScope::OwnRange;
        sent.0.lock().add(&all, BasesScope::WholeObject);
        assert!(!sent.contains(UsedObject::Bases(&high, own)));
        for is_pinned in [true, false] {
            sent.set_pinned(&high, is_pinned);
            assert_eq!(sent.contains(UsedObject::Bases(&high, own)), is_pinned);
        }
        assert!(sent.contains(UsedObject::Bases(&high, BasesScope::WholeObject)));
        assert_eq!(sent.numbers_of(&high), [1]);
        assert!(sent.numbers_of(&bases(8)).is_empty());
    }

    #[test]
    fn the_least_recently_used_range_is_evicted() {
        let all = bases(RANGES_MAX + 1);
        let mut sent = SentObjectList::default();
        let own = BasesScope::OwnRange;
        sent.add(&all, BasesScope::WholeObject);
        let ranges: Vec<_> = (0..RANGES_MAX).map(|at| all.slice(at, 1).unwrap()).collect();
        for range in &ranges {
            assert_eq!(sent.take_oldest_range(), None);
            sent.add(range, own);
        }
        let used = sent.find(UsedObject::Bases(&ranges[0], own));
        let oldest = sent.find(UsedObject::Bases(&ranges[2], own)).map(|number| number - 1);
        assert!(used.is_some());
        assert_eq!(sent.take_oldest_range(), oldest);
        assert_eq!(sent.find(UsedObject::Bases(&ranges[0], own)), used);
        assert_eq!(sent.take_oldest_range(), None);
    }
}
