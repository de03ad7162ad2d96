//! The bases that a worker has mapped.

use std::{collections::HashMap, ops::Range};

use super::{
    link::{WorkerLink, WorkerLost},
    message::{ControlRequest, MapBasesRequest, NamedBases},
};
use crate::{
    curve::points::{Bases, WeakOwner},
    error::{Error, Result},
    region::SharedObject,
    sync::Mutex,
};

/// The most ranges of objects that a worker keeps mapped: more than its runs use at the same time,
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

/// The objects that a worker has mapped, under numbers that only it uses.
#[derive(Default)]
pub struct SentBases(Mutex<SentBasesList>);

#[derive(Default)]
struct SentBasesList {
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

/// Recognises the points of an object that was sent.
struct SentKey {
    owner: WeakOwner,
    /// The points within the owner; `None` for all of them.
    range: Option<Range<usize>>,
}

impl SentKey {
    fn new(bases: &Bases, scope: BasesScope) -> Self {
        Self { owner: WeakOwner::of(bases), range: range_of(bases, scope) }
    }

    fn is_of(&self, bases: &Bases, scope: BasesScope) -> bool {
        self.owner.owns(bases) && self.range == range_of(bases, scope)
    }
}

fn range_of(bases: &Bases, scope: BasesScope) -> Option<Range<usize>> {
    let start = bases.offset_in_owner();
    (scope == BasesScope::OwnRange).then(|| start..start + bases.len())
}

impl SentBasesList {
    /// The number of a known object, which becomes the most recently used one.
    fn find(&mut self, bases: &Bases, scope: BasesScope) -> Option<u64> {
        let at = self.objects.iter().position(|object| object.key.is_of(bases, scope))?;
        let object = self.objects.remove(at);
        let number = object.number;
        self.objects.push(object);
        Some(number)
    }

    /// A device that keeps all points need not hold a range of them, too.
    fn scope_on_device(&self, bases: &Bases, scope: BasesScope) -> BasesScope {
        let all = |object: &&SentObject| object.key.is_of(bases, BasesScope::WholeObject);
        let is_kept = self.objects.iter().find(all).is_some_and(|object| object.is_pinned);
        if is_kept { BasesScope::WholeObject } else { scope }
    }

    /// Removes the objects that have been dropped. Returns their numbers.
    fn take_dropped(&mut self) -> Vec<u64> {
        let dropped = self.objects.extract_if(.., |object| !object.key.owner.is_alive());
        dropped.map(|object| object.number).collect()
    }

    /// Evicts the least recently used range if there are too many. Returns its number.
    fn take_oldest_range(&mut self) -> Option<u64> {
        let objects = self.objects.iter().enumerate();
        let mut ranges = objects.filter(|(_, object)| object.key.range.is_some());
        let (oldest, _) = ranges.next()?;
        (ranges.count() + 1 >= RANGES_MAX).then(|| self.objects.remove(oldest).number)
    }
}

impl SentBases {
    /// Whether the worker has mapped `bases`, or the object that they are part of. False while it
    /// maps another one, since this does not wait.
    pub fn contains(&self, bases: &Bases, scope: BasesScope) -> bool {
        let Some(sent) = self.0.try_lock() else { return false };
        let scope = sent.scope_on_device(bases, scope);
        sent.objects.iter().any(|object| object.key.is_of(bases, scope))
    }

    /// The numbers of an object and of its ranges.
    pub fn numbers_of(&self, bases: &Bases) -> Vec<u64> {
        let sent = self.0.lock();
        let own = sent.objects.iter().filter(|object| object.key.owner.owns(bases));
        own.map(|object| object.number).collect()
    }

    /// The owner of each number's points.
    pub fn owners(&self) -> HashMap<u64, WeakOwner> {
        let sent = self.0.lock();
        sent.objects.iter().map(|object| (object.number, object.key.owner.clone())).collect()
    }

    /// Notes whether the worker's device keeps an object.
    pub fn set_pinned(&self, bases: &Bases, is_pinned: bool) {
        let mut sent = self.0.lock();
        let all = |object: &&mut SentObject| object.key.is_of(bases, BasesScope::WholeObject);
        sent.objects.iter_mut().filter(all).for_each(|object| object.is_pinned = is_pinned);
    }

    /// Lets the worker unmap the objects that have been dropped.
    pub fn unmap_dropped(&self, link: &WorkerLink) -> Result<(), WorkerLost> {
        let mut sent = self.0.lock();
        let dropped = sent.take_dropped();
        unmap(link, dropped)
    }

    /// The name of `bases` in the worker, which maps them if it has not. Objects that have been
    /// dropped since are unmapped.
    pub fn name(
        &self,
        link: &WorkerLink,
        bases: &Bases,
        scope: BasesScope,
    ) -> Result<Result<NamedBases>, WorkerLost> {
        // Single flight: the lock is held while the worker maps an object.
        let mut sent = self.0.lock();
        let scope = sent.scope_on_device(bases, scope);
        let known = sent.find(bases, scope);
        let mut unused = sent.take_dropped();
        if known.is_none() && scope == BasesScope::OwnRange {
            unused.extend(sent.take_oldest_range());
        }
        unmap(link, unused)?;
        let object = match known {
            Some(number) => number,
            None => {
                let number = sent.last_number + 1;
                let points = match scope {
                    BasesScope::WholeObject => bases.all_of_owner(),
                    BasesScope::OwnRange => bases.clone(),
                };
                if let Err(error) = map(link, &points, number)? {
                    return Ok(Err(error));
                }
                sent.last_number = number;
                let key = SentKey::new(bases, scope);
                sent.objects.push(SentObject { key, number, is_pinned: false });
                number
            }
        };
        let start = match scope {
            BasesScope::WholeObject => bases.offset_in_owner() as u64,
            BasesScope::OwnRange => 0,
        };
        Ok(Ok(NamedBases { object, start, len: bases.len() as u64 }))
    }
}

fn unmap(link: &WorkerLink, numbers: Vec<u64>) -> Result<(), WorkerLost> {
    for number in numbers {
        let _unmapped = link.control(&ControlRequest::DropBases(number), None)?;
    }
    Ok(())
}

/// Lets the worker map these points.
fn map(link: &WorkerLink, points: &Bases, number: u64) -> Result<Result<()>, WorkerLost> {
    let internal =
        |problem: String| Error::Internal(format!("a worker cannot map bases: {problem}"));
    let shared = match SharedObject::of_bases(points) {
        Ok(shared) => shared,
        Err(error) => return Ok(Err(internal(error.to_string()))),
    };
    let (file, offset) = shared.file();
    let (group, count) = (points.group(), points.len() as u64);
    let request = MapBasesRequest { object: number, group, offset, count };
    let mapped = link.control(&ControlRequest::MapBases(request), Some(file))?;
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

    impl SentBasesList {
        fn add(&mut self, bases: &Bases, scope: BasesScope) -> u64 {
            self.last_number += 1;
            let (key, number) = (SentKey::new(bases, scope), self.last_number);
            self.objects.push(SentObject { key, number, is_pinned: false });
            number
        }
    }

    #[test]
    fn ranges_are_separate_objects() {
        let (all, mut sent) = (bases(8), SentBasesList::default());
        let [low, high] = [0, 4].map(|start| all.slice(start, 4).unwrap());
        let whole = sent.add(&high, BasesScope::WholeObject);
        let own = sent.add(&low, BasesScope::OwnRange);
        for part in [&all, &low, &high] {
            assert_eq!(sent.find(part, BasesScope::WholeObject), Some(whole));
        }
        assert_eq!(sent.find(&low, BasesScope::OwnRange), Some(own));
        for other in [&high, &all, &bases(4)] {
            assert_eq!(sent.find(other, BasesScope::OwnRange), None);
        }
        assert!(sent.take_dropped().is_empty());
        drop((all, low, high));
        assert_eq!(sent.take_dropped(), [whole, own]);
    }

    #[test]
    fn ranges_of_pinned_bases_are_not_sent() {
        let (all, sent) = (bases(8), SentBases::default());
        let high = all.slice(4, 4).unwrap();
        let own = BasesScope::OwnRange;
        sent.0.lock().add(&all, BasesScope::WholeObject);
        assert!(!sent.contains(&high, own));
        for is_pinned in [true, false] {
            sent.set_pinned(&high, is_pinned);
            assert_eq!(sent.contains(&high, own), is_pinned);
        }
        assert!(sent.contains(&high, BasesScope::WholeObject));
        assert_eq!(sent.numbers_of(&high), [1]);
        assert!(sent.numbers_of(&bases(8)).is_empty());
    }

    #[test]
    fn the_least_recently_used_range_is_evicted() {
        let (all, mut sent) = (bases(RANGES_MAX + 1), SentBasesList::default());
        let own = BasesScope::OwnRange;
        sent.add(&all, BasesScope::WholeObject);
        let ranges: Vec<_> = (0..RANGES_MAX).map(|at| all.slice(at, 1).unwrap()).collect();
        for range in &ranges {
            assert_eq!(sent.take_oldest_range(), None);
            sent.add(range, own);
        }
        let used = sent.find(&ranges[0], own);
        let oldest = sent.find(&ranges[2], own).map(|number| number - 1);
        assert!(used.is_some());
        assert_eq!(sent.take_oldest_range(), oldest);
        assert_eq!(sent.find(&ranges[0], own), used);
        assert_eq!(sent.take_oldest_range(), None);
    }
}
