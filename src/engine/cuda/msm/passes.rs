//! When which pass of an MSM is launched. One vector's scalars may be cut anywhere: each pass takes
//! what has come while the one before it ran, so a slow sender's are added up as they come, and a
//! fast one's in two or three passes.

use std::time::{Duration, Instant};

use crate::{
    buffer::Ranges,
    msm::{Pass, Plan},
};

/// No pass takes fewer scalars than one part of so many, but for the last one.
const PARTS_MAX: u32 = 8;

/// What one more pass costs on an H200, beside an addition a bucket (benches/RESULTS.md).
const PASS_COST: Duration = Duration::from_micros(600);
/// Such additions, of neighbours: 4.5 G/s in G1.
const BUCKETS_PER_NS: u64 = 4;

/// The passes that are not launched yet.
pub enum Passes {
    /// As planned, the last one first.
    Planned(Vec<Pass>),
    /// Of points from number `at` on, wherever they are cut; scalars began to come at `begun`.
    Arriving { at: u32, begun: Instant },
}

impl Passes {
    /// All of them. `plan` may become one for scalars that arrive, of a job that began at `begun`.
    pub fn of(plan: &mut Plan, begun: Instant) -> Self {
        if plan.arrive() {
            return Self::Arriving { at: 0, begun };
        }
        let mut all: Vec<_> = plan.passes().collect();
        all.reverse();
        Self::Planned(all)
    }

    /// The next pass, if it is to be launched now. `there` are scalars, counted through all
    /// vectors; `idle` says that the device is about to have nothing to do.
    pub fn next(
        &mut self,
        plan: &Plan,
        there: &Ranges,
        idle: impl FnOnce() -> bool,
    ) -> Option<Pass> {
        let n = plan.job().n;
        match self {
            Self::Planned(passes) => {
                // A pass of several vectors takes all of their points.
                let last = *passes.last()?;
                let first = last.vectors.0 as u64 * u64::from(n) + u64::from(last.points.0);
                let count = u64::from(last.vectors.1) * u64::from(last.points.1);
                there.contains(&(first..first + count)).then(|| passes.pop()).flatten()
            }
            Self::Arriving { at, begun } => {
                let until = there.gaps(&(u64::from(*at)..u64::from(n)));
                let until = until.first().map_or(n, |gap| gap.start as u32);
                let pays = || {
                    let left = begun.elapsed().mul_f64(f64::from(n - until) / f64::from(until));
                    let buckets = u64::from(plan.windows().buckets());
                    left > PASS_COST + Duration::from_nanos(buckets / BUCKETS_PER_NS)
                };
                let many = until - *at >= n / PARTS_MAX;
                if *at == n || until < n && !(many && pays() && idle()) {
                    return None;
                }
                let pass = plan.over(*at..until);
                *at = until;
                Some(pass)
            }
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self, plan: &Plan) -> bool {
        match self {
            Self::Planned(passes) => passes.is_empty(),
            Self::Arriving { at, .. } => *at == plan.job().n,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::{
        curve::Group,
        msm::{Cuts, Job, Room},
    };

    const N: u32 = 1 << 20;

    fn plan(n: u32, vectors: u32) -> Plan {
        let job = Job { group: Group::G1, n, vectors };
        Plan::new(job, job.windows(64), Room { bytes: 64 << 30, units: 132 }).expect("room")
    }

    #[test]
    fn a_slow_senders_scalars_are_taken_as_they_come() {
        let mut plan = plan(N, 1);
        let mut passes = Passes::of(&mut plan, Instant::now());
        let mut there = Ranges::default();
        // Nothing, and too little.
        there.insert(0..1000);
        sleep(Duration::from_millis(1));
        assert_eq!(passes.next(&plan, &there, || true), None);
        there.insert(0..u64::from(N / 4));
        sleep(Duration::from_millis(1));
        assert_eq!(passes.next(&plan, &there, || false), None, "the device has enough to do");
        let first = passes.next(&plan, &there, || true).expect("a quarter");
        assert_eq!((first.points, first.onto, first.last), ((0, N / 4), false, false));
        // Past a hole.
        there.insert(u64::from(N / 2)..u64::from(N));
        assert_eq!(passes.next(&plan, &there, || true), None);
        assert!(!passes.is_empty(&plan));
        there.insert(0..u64::from(N / 2));
        let last = passes.next(&plan, &there, || false).expect("all the rest");
        assert_eq!((last.points, last.onto, last.last), ((N / 4, N - N / 4), true, true));
        assert!(passes.is_empty(&plan) && passes.next(&plan, &there, || true).is_none());
    }

    #[test]
    fn a_fast_senders_go_at_once() {
        let mut plan = plan(N, 1);
        let mut passes = Passes::of(&mut plan, Instant::now());
        let mut there = Ranges::default();
        there.insert(0..u64::from(N) - 1);
        assert_eq!(passes.next(&plan, &there, || true), None, "the last one is about to come");
        there.insert(0..u64::from(N));
        let only = passes.next(&plan, &there, || false).expect("all");
        assert_eq!((only.points, only.onto, only.last), ((0, N), false, true));
    }

    #[test]
    fn few_scalars_and_several_vectors_go_as_planned() {
        assert_eq!(Cuts::default().arriving_min, N);
        for (n, vectors) in [(N - 1, 1), (N, 2)] {
            let mut plan = plan(n, vectors);
            let mut passes = Passes::of(&mut plan, Instant::now());
            let mut there = Ranges::default();
            there.insert(0..u64::from(n) * u64::from(vectors) - 1);
            let mut taken = Vec::new();
            while let Some(pass) = passes.next(&plan, &there, || true) {
                taken.push(pass);
            }
            assert!(!passes.is_empty(&plan));
            there.insert(0..u64::from(n) * u64::from(vectors));
            while let Some(pass) = passes.next(&plan, &there, || true) {
                taken.push(pass);
            }
            assert!(passes.is_empty(&plan) && taken == plan.passes().collect::<Vec<_>>());
        }
    }
}
