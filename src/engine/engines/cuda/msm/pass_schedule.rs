//! Schedules the passes of an MSM. Passes over a single vector can be split anywhere: a slow
//! sender's scalars are computed as they are received, a fast sender's in two passes. The passes of
//! a job that yields are short: a small MSM of another job must wait for one.

use std::time::{Duration, Instant};

use super::receive_schedule::ReceiveProgress;
use crate::{
    buffer::RangeSet,
    curve::Group,
    device::Event,
    msm::{MsmPass, MsmPassPlan},
};

/// Overhead of one more pass on an H200, plus the cost per bucket that it adds to: fitted in G1
/// (`benches/experiments/msm.md`), scaled by the cost of sums for G2.
const PASS_NS: f64 = 500e3;
const fn bucket_ns(group: Group) -> f64 {
    match group {
        Group::G1 => 0.65,
        Group::G2 => 1.6,
    }
}

/// A pass of a job that yields takes at most this long by the planner's model. Each pass has an
/// overhead of two thirds of a millisecond (`benches/experiments/tenants.md`).
const YIELDING_PASS: Duration = Duration::from_micros(2500);

/// The longest pass of a job that yields, in nanoseconds of the planner's model: less if tests
/// lower the smallest MSM that is split.
pub fn yielding_pass_ns(plan: &MsmPassPlan) -> f64 {
    plan.pass_cost_scale() * YIELDING_PASS.as_nanos() as f64
}

/// Whether an MSM takes longer than a pass of a job that yields.
pub fn is_long(plan: &MsmPassPlan) -> bool {
    plan.job().model_ns(plan.windows(), plan.limits()) > yielding_pass_ns(plan)
}

/// The passes that are not launched yet.
pub enum PassSchedule {
    /// Passes as planned, the last one first.
    Planned(Vec<MsmPass>),
    /// Passes over the scalars received so far.
    Received(ReceivedPasses),
}

/// The passes over a vector of which more is received.
pub struct ReceivedPasses {
    /// Points in passes.
    launched: u32,
    /// End of the points received without a gap, at the last call.
    received: u32,
    /// When the first scalars were received, and in how many pieces all were.
    begun: Instant,
    pieces: u32,
    /// When the device will have finished the passes launched, by the planner's model.
    busy_until: Instant,
}

/// Passes of one MSM that were launched and are not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingPasses {
    Idle,
    One,
    /// The last pass launched and one before it.
    Several,
}

impl PendingPasses {
    /// From the ends of the last pass launched and of the one before.
    pub fn of(last: Option<&Event>, previous: Option<&Event>) -> Self {
        let is_pending = |end: &Event| !end.is_reached().unwrap_or(false);
        match last.is_some_and(is_pending) {
            false => Self::Idle,
            true if previous.is_some_and(is_pending) => Self::Several,
            true => Self::One,
        }
    }
}

impl PassSchedule {
    /// All passes of `plan`. It may become a plan for scalars of which more are received, the first
    /// at `begun`.
    pub fn new(plan: &mut MsmPassPlan, begun: Instant) -> Self {
        if plan.enable_streaming() {
            let launched = 0;
            let received = 0;
            let pieces = 0;
            let busy_until = begun;
            return Self::Received(ReceivedPasses {
                launched,
                received,
                begun,
                pieces,
                busy_until,
            });
        }
        let mut all: Vec<_> = plan.passes().collect();
        all.reverse();
        Self::Planned(all)
    }

    /// Whether passes depend on how fast scalars arrive: they count as received when their copies
    /// are done. Counting them earlier made an MSM of 2^22 6 % slower
    /// (`benches/experiments/transport.md`).
    pub fn measures_sender(&self) -> bool {
        matches!(self, Self::Received(_))
    }

    /// The next pass, if it is due: a short one if the job yields and the pass can still be split.
    /// `received` scalars are numbered across all vectors.
    pub fn next(
        &mut self,
        plan: &MsmPassPlan,
        received: &RangeSet,
        now: Instant,
        pending: impl FnOnce() -> PendingPasses,
        yields: bool,
    ) -> Option<MsmPass> {
        match self {
            Self::Planned(passes) => {
                // A pass over several vectors includes all of their points.
                let last = passes.last()?;
                let first = last.first_scalar(plan.job().n);
                received.contains(&(first..first + last.scalars())).then(|| passes.pop()).flatten()
            }
            Self::Received(passes) => passes.next(plan, received, now, pending, yields),
        }
    }

    pub fn is_empty(&self, plan: &MsmPassPlan) -> bool {
        match self {
            Self::Planned(passes) => passes.is_empty(),
            Self::Received(passes) => passes.launched == plan.job().n,
        }
    }
}

impl ReceivedPasses {
    fn next(
        &mut self,
        plan: &MsmPassPlan,
        received: &RangeSet,
        now: Instant,
        pending: impl FnOnce() -> PendingPasses,
        yields: bool,
    ) -> Option<MsmPass> {
        let (job, windows) = (plan.job(), plan.windows());
        let n = job.n;
        let gaps = received.gaps(&(u64::from(self.launched)..u64::from(n)));
        let end = gaps.first().map_or(n, |gap| gap.start as u32);
        if end > self.received {
            self.received = end;
            self.pieces += 1;
        }
        if end == self.launched {
            return None;
        }
        let pending = pending();
        // A device that has finished is idle, whatever the model estimates.
        let idle_at = match pending {
            PendingPasses::Idle => now,
            PendingPasses::One | PendingPasses::Several => self.busy_until.max(now),
        };
        let buckets = f64::from(windows.sets()) * f64::from(windows.buckets());
        let progress = ReceiveProgress {
            n,
            launched: self.launched,
            received: end,
            pieces: self.pieces,
            elapsed_ns: ns(now.saturating_duration_since(self.begun)),
            busy_ns: ns(idle_at - now),
            whole_ns: job.model_ns(windows, plan.limits()),
            overhead_ns: plan.pass_cost_scale() * (PASS_NS + bucket_ns(job.group) * buckets),
        };
        let points_max = match yields {
            true => progress.points_in(yielding_pass_ns(plan)),
            false => n,
        };
        // At most one pass waits behind the running one, since other jobs may use the device.
        let is_due = || progress.is_due() && (end == n || pending != PendingPasses::Several);
        if end - self.launched < points_max && !is_due() {
            return None;
        }
        let end = end.min(self.launched.saturating_add(points_max));
        let pass_ns = progress.ns_of(end - self.launched) + progress.overhead_ns;
        self.busy_until = idle_at + Duration::from_nanos(pass_ns as u64);
        let pass = plan.pass_over(self.launched..end);
        self.launched = end;
        Some(pass)
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::{
        device::DeviceLimits,
        msm::{MsmBudget, MsmSize, SplitThresholds},
    };

    const N: u32 = 1 << 21;
    const MS: Duration = Duration::from_millis(1);

    fn plan(n: u32, vectors: u32) -> MsmPassPlan {
        let job = MsmSize { group: Group::G1, n, vectors };
        let limits = DeviceLimits::H200;
        MsmPassPlan::new(
            job,
            job.choose_windows(64, &limits),
            MsmBudget { bytes: 64 << 30, limits },
        )
        .expect("enough memory")
    }

    /// An MSM whose first scalars are received now.
    struct ScheduleCase {
        plan: MsmPassPlan,
        passes: PassSchedule,
        received: RangeSet,
        begun: Instant,
    }

    impl ScheduleCase {
        fn new(n: u32, vectors: u32) -> Self {
            let mut plan = plan(n, vectors);
            let begun = Instant::now();
            let passes = PassSchedule::new(&mut plan, begun);
            Self { plan, passes, received: RangeSet::default(), begun }
        }

        /// Receives the given eighths of the scalars; `ms` is the time since the start.
        fn receive(&mut self, eighths: &[u64], ms: u32, pending: PendingPasses) -> Option<MsmPass> {
            let eighth = u64::from(N / 8);
            for i in eighths {
                self.received.insert(i * eighth..(i + 1) * eighth);
            }
            let now = self.begun + ms * MS;
            self.passes.next(&self.plan, &self.received, now, || pending, false)
        }
    }

    /// The eighths of the scalars that a pass takes.
    fn taken(pass: Option<MsmPass>) -> Option<Range<u32>> {
        pass.map(|MsmPass { points, accumulate, reduces, .. }| {
            assert_eq!((accumulate, reduces), (points.start > 0, points.end == N));
            8 * points.start / N..8 * points.end / N
        })
    }

    #[test]
    fn launches_passes_as_a_slow_senders_scalars_are_received() {
        use PendingPasses::{Idle, One, Several};
        let mut case = ScheduleCase::new(N, 1);
        assert_eq!(taken(case.receive(&[], 1, Idle)), None, "nothing received");
        assert_eq!(taken(case.receive(&[0], 4, Idle)), None, "too little");
        assert_eq!(taken(case.receive(&[1], 8, Idle)), Some(0..2));
        assert_eq!(taken(case.receive(&[2], 8, One)), None, "the device is busy");
        assert_eq!(taken(case.receive(&[3], 8, One)), None);
        // After a gap.
        assert_eq!(taken(case.receive(&[6, 7], 8, One)), None);
        assert_eq!(taken(case.receive(&[], 50, Several)), None, "two passes are pending");
        assert_eq!(taken(case.receive(&[], 50, Idle)), Some(2..4));
        assert_eq!(taken(case.receive(&[], 99, Idle)), None, "nothing new");
        assert!(!case.passes.is_empty(&case.plan));
        assert_eq!(
            taken(case.receive(&[4, 5], 100, Several)),
            Some(4..8),
            "the last pass may wait"
        );
        assert!(case.passes.is_empty(&case.plan));
        assert_eq!(taken(case.receive(&[], 101, Idle)), None);
    }

    /// Also if the model expects the device to be busy.
    #[test]
    fn an_idle_device_gets_its_next_pass_at_once() {
        for (pending, second) in [(PendingPasses::One, None), (PendingPasses::Idle, Some(2..4))] {
            let mut case = ScheduleCase::new(N, 1);
            assert_eq!(taken(case.receive(&[0], 4, PendingPasses::Idle)), None);
            assert_eq!(taken(case.receive(&[1], 8, PendingPasses::Idle)), Some(0..2));
            assert_eq!(taken(case.receive(&[2, 3], 8, pending)), second);
        }
    }

    #[test]
    fn a_fast_senders_scalars_take_two_passes() {
        let mut case = ScheduleCase::new(N, 1);
        case.begun += Duration::from_micros(300);
        assert_eq!(taken(case.receive(&[0], 0, PendingPasses::Idle)), Some(0..1));
        for eighth in 1..7 {
            assert_eq!(taken(case.receive(&[eighth], 1, PendingPasses::One)), None);
        }
        assert_eq!(taken(case.receive(&[7], 2, PendingPasses::One)), Some(1..8));
    }

    #[test]
    fn a_job_that_yields_launches_short_passes() {
        let mut case = ScheduleCase::new(4 * N, 1);
        case.received.insert(0..u64::from(4 * N));
        let whole_ns = case.plan.job().model_ns(case.plan.windows(), case.plan.limits());
        let short = yielding_pass_ns(&case.plan) / whole_ns * f64::from(4 * N);
        let mut next = || {
            let now = case.begun + MS;
            let pending = || PendingPasses::Idle;
            let pass = case.passes.next(&case.plan, &case.received, now, pending, true);
            pass.map(|pass| pass.points)
        };
        let mut end = 0;
        let mut passes = 0;
        while let Some(pass) = next() {
            assert!(pass.start == end && pass.len() as f64 <= short, "{pass:?}");
            (end, passes) = (pass.end, passes + 1);
        }
        assert_eq!((end, passes), (4 * N, (f64::from(4 * N) / short).ceil() as u32));
    }

    #[test]
    fn few_scalars_and_several_vectors_follow_the_plan() {
        let streamed_min = SplitThresholds::default().streamed_scalars_min;
        for (n, vectors) in [(streamed_min - 1, 1), (streamed_min, 2)] {
            let ScheduleCase { plan, mut passes, mut received, begun } =
                ScheduleCase::new(n, vectors);
            received.insert(0..u64::from(n) * u64::from(vectors) - 1);
            let mut taken = Vec::new();
            let mut next = |received: &RangeSet| {
                while let Some(pass) =
                    passes.next(&plan, received, begun + MS, || PendingPasses::Idle, false)
                {
                    taken.push(pass);
                }
                passes.is_empty(&plan)
            };
            assert!(!next(&received));
            received.insert(0..u64::from(n) * u64::from(vectors));
            assert!(next(&received) && taken == plan.passes().collect::<Vec<_>>());
        }
    }
}
