//! Simulates senders and devices to evaluate the schedule.

use super::*;

const MS: f64 = 1e6;
/// Link speed in bytes per nanosecond.
const LINK: f64 = 55.0;
/// Overhead of a piece, in addition to the link.
const PIECE_NS: f64 = 40e3;
/// Scalars in a piece.
const PIECE: u32 = 1 << 19;

/// Measured on an H200 in G1.
const MEASURED: [MeasuredMsm; 5] = [
    MeasuredMsm { lg_n: 20, whole_ms: 4.74, overhead_ms: 0.67 },
    MeasuredMsm { lg_n: 21, whole_ms: 8.4, overhead_ms: 0.84 },
    MeasuredMsm { lg_n: 22, whole_ms: 16.2, overhead_ms: 0.84 },
    MeasuredMsm { lg_n: 23, whole_ms: 30.0, overhead_ms: 1.3 },
    MeasuredMsm { lg_n: 24, whole_ms: 57.8, overhead_ms: 1.5 },
];

#[derive(Debug, Clone, Copy)]
struct MeasuredMsm {
    lg_n: u32,
    whole_ms: f64,
    /// One more pass.
    overhead_ms: f64,
}

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
    /// The part of the scalars after which the sender stalls.
    stall_after: f64,
    stall: f64,
}

struct SimulatedMsm {
    /// The passes, in scalars.
    passes: Vec<u32>,
    /// When the sum is ready.
    end: f64,
}

impl SenderCase {
    fn new(measured: MeasuredMsm, rate: f64) -> Self {
        let MeasuredMsm { lg_n, whole_ms, overhead_ms } = measured;
        let whole = whole_ms * MS;
        let price = overhead_ms * MS;
        Self { n: 1 << lg_n, whole, price, model: whole, rate, stall_after: 1.0, stall: 0.0 }
    }

    /// When the first `scalars` scalars are received.
    fn received_at(&self, scalars: u32) -> f64 {
        let late = f64::from(scalars) > self.stall_after * f64::from(self.n);
        f64::from(scalars) * 32.0 / self.rate + if late { self.stall } else { 0.0 }
    }

    fn receive(&self) -> f64 {
        self.received_at(self.n)
    }

    /// Launches a pass whenever `due` says so.
    fn run(&self, mut due: impl FnMut(&ReceiveProgress, &[f64], f64) -> bool) -> SimulatedMsm {
        let Self { n, whole, price, .. } = *self;
        let mut launched = 0;
        let mut received = 0;
        let mut pieces = 0;
        let (mut now, mut model) = (0.0_f64, 0.0_f64);
        let mut passes = Vec::new();
        let mut ends = vec![0.0];
        while launched < n {
            (received, pieces) = ((received + PIECE).min(n), pieces + 1);
            now = now.max(self.received_at(received)) + f64::from(PIECE) * 32.0 / LINK + PIECE_NS;
            let idle_at = if ends[ends.len() - 1] <= now { now } else { model.max(now) };
            let (elapsed_ns, busy_ns) = (now, idle_at - now);
            let progress = ReceiveProgress {
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
        SimulatedMsm { passes, end: ends[ends.len() - 1] }
    }

    fn with_rule(&self) -> SimulatedMsm {
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
        let copied_at = |i: u32| self.received_at(i * PIECE).max(f64::from(i - 1) * step) + step;
        let work = |pieces: u32| self.whole * f64::from(pieces) / f64::from(all);
        let mut best = copied_at(all) + self.whole;
        let mut ends: Vec<f64> = Vec::new();
        for i in 1..all {
            let before = (1..i).zip(&ends).map(|(j, end)| end.max(copied_at(i)) + work(i - j));
            let end = before.fold(copied_at(i) + work(i), f64::min) + self.price;
            best = best.min(end.max(copied_at(all)) + work(all - i));
            ends.push(end);
        }
        best
    }
}

#[test]
fn scalars_received_at_once_take_one_pass_or_two() {
    for measured in MEASURED {
        let case = SenderCase::new(measured, f64::INFINITY);
        let SimulatedMsm { passes, end } = case.with_rule();
        let expected = if measured.lg_n == 20 { 1 } else { 2 };
        assert_eq!(passes.len(), expected, "{measured:?}: {passes:?}");
        let best = case.best();
        assert!(end < (best + 0.3 * MS).max(1.02 * best), "{measured:?}: {end}, not {best}");
    }
}

#[test]
fn a_slow_senders_msm_ends_soon_after_the_last_scalar() {
    for measured in MEASURED {
        for rate in [1.0, 3.0, 5.0, 7.5, 10.0, 13.0] {
            let case = SenderCase::new(measured, rate);
            let SimulatedMsm { passes, end } = case.with_rule();
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
        for stall_after in [0.1, 0.5, 0.95] {
            let case =
                SenderCase { stall_after, stall: 20.0 * MS, ..SenderCase::new(measured, 7.5) };
            let end = case.with_rule().end;
            let all_at_the_end = case.receive() + case.whole;
            assert!(end < all_at_the_end, "{measured:?}, stalls at {stall_after}: {end}");
            assert!(end < 1.25 * case.best(), "{measured:?}, stalls at {stall_after}: {end}");
        }
        for (rate, off) in [(f64::INFINITY, 0.8), (f64::INFINITY, 1.25), (7.5, 0.8), (7.5, 1.25)] {
            let case = SenderCase::new(measured, rate);
            let SimulatedMsm { passes, end } =
                SenderCase { model: off * case.whole, ..case }.with_rule();
            assert!(end < 1.12 * case.best() + 0.5 * MS, "{measured:?}, {off}: {passes:?}, {end}");
        }
    }
}

#[test]
fn decides_by_work_rate_and_overhead() {
    let progress = ReceiveProgress {
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
    assert!(!ReceiveProgress { launched: 3 << 18, ..progress }.is_due(), "not worth its overhead");
    assert!(
        !ReceiveProgress { launched: 1 << 19, overhead_ns: 1.1 * MS, ..progress }.is_due(),
        "below two overheads"
    );
    assert!(
        !ReceiveProgress { busy_ns: 3.0 * MS, ..progress }.is_due(),
        "busy until the next piece"
    );
    assert!(
        ReceiveProgress { busy_ns: 2.0 * MS, ..progress }.is_due(),
        "idle before the next piece"
    );
    assert!(
        !ReceiveProgress { elapsed_ns: 0.3 * MS, ..progress }.is_due(),
        "all will soon be received"
    );
    assert!(!ReceiveProgress { launched: 1 << 20, ..progress }.is_due(), "no scalars");
    let last = ReceiveProgress { received: 1 << 22, busy_ns: 9.0 * MS, ..progress };
    assert!(last.is_due() && !ReceiveProgress { launched: 1 << 22, ..last }.is_due());
}
