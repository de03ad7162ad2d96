//! Which pass of an MSM is launched when. One vector's scalars may be cut anywhere: passes take
//! what has come, a slow sender's as it comes and a fast one's in two.

use std::time::{Duration, Instant};

use super::due::Moment;
use crate::{
    buffer::Ranges,
    curve::Group,
    msm::{Pass, Plan},
};

/// What one more pass costs on an H200, and for each bucket that it adds to: 0.6, 0.85 and 1.5 ms
/// more were measured with 2^18, 2^19 and 1.5 * 2^20 buckets of G1. In G2 as much more as sums do.
const PASS_NS: f64 = 500e3;
const fn bucket_ns(group: Group) -> f64 {
    match group {
        Group::G1 => 0.65,
        Group::G2 => 1.6,
    }
}

/// The passes that are not launched yet.
pub enum Passes {
    /// As planned, the last one first.
    Planned(Vec<Pass>),
    /// Of what has come, wherever it is cut.
    Arriving(Arriving),
}

/// Of points from number `at` on.
pub struct Arriving {
    at: u32,
    /// Points before this one were there at the last look.
    until: u32,
    /// When scalars began to come, and in how many pieces they came.
    begun: Instant,
    looks: u32,
    /// When the device will have done what it was given, by the planner's model.
    busy_until: Instant,
}

/// An MSM's passes that the device has and has not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnderWay {
    /// None.
    Nothing,
    /// The last one that was launched.
    One,
    /// That one, behind another.
    More,
}

impl Passes {
    /// All of them. `plan` may become one for scalars that arrive, of which the first began to come
    /// at `begun`.
    pub fn of(plan: &mut Plan, begun: Instant) -> Self {
        if plan.arrive() {
            let (at, until, looks) = (0, 0, 0);
            return Self::Arriving(Arriving { at, until, begun, looks, busy_until: begun });
        }
        let mut all: Vec<_> = plan.passes().collect();
        all.reverse();
        Self::Planned(all)
    }

    /// The next pass, if it is to be launched now. `there` are scalars, counted through all
    /// vectors.
    pub fn next(
        &mut self,
        plan: &Plan,
        there: &Ranges,
        now: Instant,
        under_way: impl FnOnce() -> UnderWay,
    ) -> Option<Pass> {
        match self {
            Self::Planned(passes) => {
                // A pass of several vectors takes all of their points.
                let (last, n) = (*passes.last()?, plan.job().n);
                let first = last.vectors.0 as u64 * u64::from(n) + u64::from(last.points.0);
                let count = u64::from(last.vectors.1) * u64::from(last.points.1);
                there.contains(&(first..first + count)).then(|| passes.pop()).flatten()
            }
            Self::Arriving(arriving) => arriving.next(plan, there, now, under_way),
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self, plan: &Plan) -> bool {
        match self {
            Self::Planned(passes) => passes.is_empty(),
            Self::Arriving(arriving) => arriving.at == plan.job().n,
        }
    }
}

impl Arriving {
    fn next(
        &mut self,
        plan: &Plan,
        there: &Ranges,
        now: Instant,
        under_way: impl FnOnce() -> UnderWay,
    ) -> Option<Pass> {
        let (job, windows) = (plan.job(), plan.windows());
        let n = job.n;
        let gaps = there.gaps(&(u64::from(self.at)..u64::from(n)));
        let until = gaps.first().map_or(n, |gap| gap.start as u32);
        if until > self.until {
            self.until = until;
            self.looks += 1;
        }
        if until == self.at {
            return None;
        }
        let under_way = under_way();
        // What it has done is not what the model says that it has.
        let idle_at = match under_way {
            UnderWay::Nothing => now,
            UnderWay::One | UnderWay::More => self.busy_until.max(now),
        };
        let buckets = f64::from(windows.sets()) * f64::from(windows.buckets());
        let moment = Moment {
            n,
            at: self.at,
            until,
            elapsed: ns(now.saturating_duration_since(self.begun)),
            looks: self.looks,
            busy: ns(idle_at - now),
            whole: job.model_ns(windows, plan.limits()),
            price: plan.price_part() * (PASS_NS + bucket_ns(job.group) * buckets),
        };
        // One waits behind the one that runs, not more: the device may be others'.
        if !moment.is_due() || until < n && under_way == UnderWay::More {
            return None;
        }
        self.busy_until = idle_at + Duration::from_nanos((moment.own() + moment.price) as u64);
        let pass = plan.over(self.at..until);
        self.at = until;
        Some(pass)
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::DeviceLimits,
        msm::{Cuts, Job, Room},
    };

    const N: u32 = 1 << 21;
    const MS: Duration = Duration::from_millis(1);

    fn plan(n: u32, vectors: u32) -> Plan {
        let job = Job { group: Group::G1, n, vectors };
        let limits = DeviceLimits::H200;
        Plan::new(job, job.windows(64, &limits), Room { bytes: 64 << 30, limits }).expect("room")
    }

    /// An MSM whose scalars begin to come now.
    struct Case {
        plan: Plan,
        passes: Passes,
        there: Ranges,
        begun: Instant,
    }

    impl Case {
        fn new(n: u32, vectors: u32) -> Self {
            let (mut plan, begun) = (plan(n, vectors), Instant::now());
            let passes = Passes::of(&mut plan, begun);
            Self { plan, passes, there: Ranges::default(), begun }
        }

        /// Eighths of the scalars come, and `ms` have passed.
        fn look(&mut self, eighths: &[u64], ms: u32, under_way: UnderWay) -> Option<Pass> {
            let eighth = u64::from(N / 8);
            for i in eighths {
                self.there.insert(i * eighth..(i + 1) * eighth);
            }
            self.passes.next(&self.plan, &self.there, self.begun + ms * MS, || under_way)
        }
    }

    fn taken(pass: Option<Pass>) -> Option<(u32, u32)> {
        pass.map(|Pass { points: (first, count), onto, last, .. }| {
            assert_eq!((onto, last), (first > 0, first + count == N));
            (8 * first / N, 8 * count / N)
        })
    }

    #[test]
    fn a_slow_senders_scalars_are_taken_as_they_come() {
        use UnderWay::{More, Nothing, One};
        let mut case = Case::new(N, 1);
        assert_eq!(taken(case.look(&[], 1, Nothing)), None, "nothing has come");
        assert_eq!(taken(case.look(&[0], 4, Nothing)), None, "too little");
        assert_eq!(taken(case.look(&[1], 8, Nothing)), Some((0, 2)));
        assert_eq!(taken(case.look(&[2], 8, One)), None, "the device has enough to do");
        assert_eq!(taken(case.look(&[3], 8, One)), None);
        // Past a hole.
        assert_eq!(taken(case.look(&[6, 7], 8, One)), None);
        assert_eq!(taken(case.look(&[], 50, More)), None, "it has even more, of others'");
        assert_eq!(taken(case.look(&[], 50, Nothing)), Some((2, 2)));
        assert_eq!(taken(case.look(&[], 99, Nothing)), None, "nothing new");
        assert!(!case.passes.is_empty(&case.plan));
        assert_eq!(taken(case.look(&[4, 5], 100, More)), Some((4, 4)), "the last one may wait");
        assert!(case.passes.is_empty(&case.plan));
        assert_eq!(taken(case.look(&[], 101, Nothing)), None);
    }

    /// What is done sooner than the model says was done.
    #[test]
    fn an_idle_device_gets_its_next_pass_at_once() {
        for (under_way, second) in [(UnderWay::One, None), (UnderWay::Nothing, Some((2, 2)))] {
            let mut case = Case::new(N, 1);
            assert_eq!(taken(case.look(&[0], 4, UnderWay::Nothing)), None);
            assert_eq!(taken(case.look(&[1], 8, UnderWay::Nothing)), Some((0, 2)));
            assert_eq!(taken(case.look(&[2, 3], 8, under_way)), second);
        }
    }

    #[test]
    fn a_fast_senders_are_two_passes() {
        let mut case = Case::new(N, 1);
        case.begun += Duration::from_micros(300);
        assert_eq!(taken(case.look(&[0], 0, UnderWay::Nothing)), Some((0, 1)));
        for eighth in 1..7 {
            assert_eq!(taken(case.look(&[eighth], 1, UnderWay::One)), None);
        }
        assert_eq!(taken(case.look(&[7], 2, UnderWay::One)), Some((1, 7)));
    }

    #[test]
    fn few_scalars_and_several_vectors_go_as_planned() {
        let least = Cuts::default().arriving_min;
        for (n, vectors) in [(least - 1, 1), (least, 2)] {
            let Case { plan, mut passes, mut there, begun } = Case::new(n, vectors);
            there.insert(0..u64::from(n) * u64::from(vectors) - 1);
            let mut taken = Vec::new();
            let mut next = |there: &Ranges| {
                while let Some(pass) = passes.next(&plan, there, begun + MS, || UnderWay::Nothing) {
                    taken.push(pass);
                }
                passes.is_empty(&plan)
            };
            assert!(!next(&there));
            there.insert(0..u64::from(n) * u64::from(vectors));
            assert!(next(&there) && taken == plan.passes().collect::<Vec<_>>());
        }
    }
}
