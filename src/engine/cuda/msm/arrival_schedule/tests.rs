//! Simulates senders and devices to evaluate the schedule.

use super::*;

const MS: f64 = 1e6;
/// Link speed in bytes per nanosecond.
const LINK: f64 = 55.0;
/// Overhead of a piece, in addition to the link.
const PIECE_NS: f64 = 40e3;
/// Scalars in a piece.
const PIECE: u32 = 1 << 19;

/// Measured on an H200 in G1: log2 of the scalars, ms for all, ms of overhead for one more pass.
const MEASURED: [(u32, f64, f64); 5] =
    [(20, 4.74, 0.67), (21, 8.4, 0.84), (22, 16.2, 0.84), (23, 30.0, 1.3), (24, 57.8, 1.5)];

#[derive(Clone, Copy)]
struct SenderCase {
    n: u32,
    /// The device's time for all scalars, and the overhead of one more pass.
    whole: f64,
    price: f64,
    /// The model's estimate of `whole`.
    model: f64,
    /// Bytes per nanosecond; infinity if all scalars are received at once.
    rate: f64,
    /// After this part of the scalars, the sender stalls for this long.
    stall: (f64, f64),
}

impl SenderCase {
    fn new((lg_n, whole, price): (u32, f64, f64), rate: f64) -> Self {
        let (whole, price) = (whole * MS, price * MS);
        Self { n: 1 << lg_n, whole, price, model: whole, rate, stall: (1.0, 0.0) }
    }

    /// When the first `scalars` scalars have arrived.
    fn arrival(&self, scalars: u32) -> f64 {
        let (part, stall) = self.stall;
        let late = f64::from(scalars) > part * f64::from(self.n);
        f64::from(scalars) * 32.0 / self.rate + if late { stall } else { 0.0 }
    }

    fn receive(&self) -> f64 {
        self.arrival(self.n)
    }

    /// The passes that `due` makes, in scalars, and when the sum is ready.
    fn run(&self, mut due: impl FnMut(&ArrivalProgress, &[f64], f64) -> bool) -> (Vec<u32>, f64) {
        let Self { n, whole, price, .. } = *self;
        let (mut launched, mut received, mut pieces) = (0, 0, 0);
        let (mut now, mut model) = (0.0_f64, 0.0_f64);
        let (mut passes, mut ends) = (Vec::new(), vec![0.0]);
        while launched < n {
            (received, pieces) = ((received + PIECE).min(n), pieces + 1);
            now = now.max(self.arrival(received)) + f64::from(PIECE) * 32.0 / LINK + PIECE_NS;
            let idle_at = if ends[ends.len() - 1] <= now { now } else { model.max(now) };
            let (elapsed_ns, busy_ns) = (now, idle_at - now);
            let progress = ArrivalProgress {
                n,
                launched,
                received,
                pieces,
                elapsed_ns,
                busy_ns,
                whole_ns: self.model,
                overhead_ns: price,
            };
            if due(&progress, &ends, now) {
                let more = if received < n { price } else { 0.0 };
                let own = whole * f64::from(received - launched) / f64::from(n) + more;
                model = idle_at + progress.pass_ns() + price;
                ends.push(now.max(ends[ends.len() - 1]) + own);
                passes.push(received - launched);
                launched = received;
            }
        }
        (passes, ends[ends.len() - 1])
    }

    fn with_rule(&self) -> (Vec<u32>, f64) {
        self.run(|progress, ends, now| {
            // At most one pass waits.
            let waits = ends.len() > 1 && ends[ends.len() - 2] > now;
            progress.is_due() && !(waits && progress.received < progress.n)
        })
    }

    /// The earliest end of all schedules that split between pieces.
    fn best(&self) -> f64 {
        let all = self.n / PIECE;
        let step = f64::from(PIECE) * 32.0 / LINK;
        let there = |i: u32| self.arrival(i * PIECE).max(f64::from(i - 1) * step) + step;
        let work = |pieces: u32| self.whole * f64::from(pieces) / f64::from(all);
        let mut best = there(all) + self.whole;
        let mut ends: Vec<f64> = Vec::new();
        for i in 1..all {
            let before = (1..i).zip(&ends).map(|(j, end)| end.max(there(i)) + work(i - j));
            let end = before.fold(there(i) + work(i), f64::min) + self.price;
            best = best.min(end.max(there(all)) + work(all - i));
            ends.push(end);
        }
        best
    }
}

#[test]
fn scalars_received_at_once_take_one_pass_or_two() {
    for measured in MEASURED {
        let case = SenderCase::new(measured, f64::INFINITY);
        let (passes, end) = case.with_rule();
        assert_eq!(passes.len(), if measured.0 == 20 { 1 } else { 2 }, "{measured:?}: {passes:?}");
        let best = case.best();
        assert!(end < (best + 0.3 * MS).max(1.02 * best), "{measured:?}: {end}, not {best}");
    }
}

#[test]
fn a_slow_senders_msm_ends_soon_after_the_last_scalar() {
    for measured in MEASURED {
        for rate in [1.0, 3.0, 5.0, 7.5, 10.0, 13.0] {
            let case = SenderCase::new(measured, rate);
            let (passes, end) = case.with_rule();
            let best = case.best();
            assert!(end < 1.09 * best + 0.7 * MS, "{measured:?} at {rate}: {end}, not {best}");
            assert!(passes.len() <= 16, "{passes:?}");
            // Each pass is worth its overhead.
            let (_, early) = passes.split_last().unwrap();
            let own = |scalars: &u32| case.whole * f64::from(*scalars) / f64::from(case.n);
            assert!(early.iter().all(|scalars| own(scalars) > case.price), "{passes:?}");
        }
    }
}

/// The schedule extrapolates the rate so far and relies on a model.
#[test]
fn stalls_and_wrong_estimates_cost_little() {
    for measured in MEASURED {
        for part in [0.1, 0.5, 0.95] {
            let case = SenderCase { stall: (part, 20.0 * MS), ..SenderCase::new(measured, 7.5) };
            let (_, end) = case.with_rule();
            let all_at_the_end = case.receive() + case.whole;
            assert!(end < all_at_the_end, "{measured:?}, stalls at {part}: {end}");
            assert!(end < 1.25 * case.best(), "{measured:?}, stalls at {part}: {end}");
        }
        for (rate, off) in [(f64::INFINITY, 0.8), (f64::INFINITY, 1.25), (7.5, 0.8), (7.5, 1.25)] {
            let case = SenderCase::new(measured, rate);
            let (passes, end) = SenderCase { model: off * case.whole, ..case }.with_rule();
            assert!(end < 1.12 * case.best() + 0.5 * MS, "{measured:?}, {off}: {passes:?}, {end}");
        }
    }
}

#[test]
fn decides_by_work_rate_and_overhead() {
    let progress = ArrivalProgress {
        n: 1 << 22,
        launched: 0,
        received: 1 << 20,
        pieces: 2,
        elapsed_ns: 5.0 * MS,
        busy_ns: 0.0,
        whole_ns: 16.0 * MS,
        overhead_ns: MS,
    };
    assert!(progress.is_due());
    assert!(!ArrivalProgress { launched: 3 << 18, ..progress }.is_due(), "not worth its overhead");
    assert!(
        !ArrivalProgress { launched: 1 << 19, overhead_ns: 1.1 * MS, ..progress }.is_due(),
        "below two overheads"
    );
    assert!(
        !ArrivalProgress { busy_ns: 3.0 * MS, ..progress }.is_due(),
        "busy until the next piece"
    );
    assert!(
        ArrivalProgress { busy_ns: 2.0 * MS, ..progress }.is_due(),
        "idle before the next piece"
    );
    assert!(
        !ArrivalProgress { elapsed_ns: 0.3 * MS, ..progress }.is_due(),
        "all will soon be received"
    );
    assert!(!ArrivalProgress { launched: 1 << 20, ..progress }.is_due(), "no scalars");
    let last = ArrivalProgress { received: 1 << 22, busy_ns: 9.0 * MS, ..progress };
    assert!(last.is_due() && !ArrivalProgress { launched: 1 << 22, ..last }.is_due());
}
