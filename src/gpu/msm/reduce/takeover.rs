//! Chooses the step at which the host takes over: a chain of doublings is slow on the device and
//! fast on the host, many independent chains are the opposite.

use super::{
    shape::{HostTakeover, ReduceShape},
    step::PeriodicDoublings,
};
use crate::msm::launch::{PerGroup, lg_ceil};

/// Nanoseconds per operation on an H200 and its host, by `benches/gpu/reduce.rs`: differences
/// between runs with many and few doublings, sets and launches (`benches/experiments/msm.md`).
struct TakeoverCosts {
    /// arkworks on one core, including reading the point.
    host_double: u64,
    host_add: u64,
    /// A dependent chain of operations on a group of four lanes.
    device_double: u64,
    device_add: u64,
}

/// Nanoseconds of a dependent launch, by the same benchmark.
const LAUNCH_NS: u64 = 2_200;

#[rustfmt::skip]
const COSTS: PerGroup<TakeoverCosts> = PerGroup {
    g1: TakeoverCosts {
        host_double: 420, host_add: 1_070, device_double: 5_250, device_add: 4_950,
    },
    g2: TakeoverCosts {
        host_double: 1_120, host_add: 3_160, device_double: 13_950, device_add: 11_900,
    },
};

/// The steps at which the host can take over.
pub(super) fn possible(shape: &ReduceShape) -> impl Iterator<Item = HostTakeover> {
    let on_device = PeriodicDoublings::of_sets(shape).map(|_| HostTakeover::Vectors);
    [HostTakeover::Terms, HostTakeover::Sets].into_iter().chain(on_device)
}

/// The fastest possible step by these costs.
pub(super) fn choose(shape: &ReduceShape) -> HostTakeover {
    possible(shape).min_by_key(|step| time(shape, *step)).unwrap_or(HostTakeover::Terms)
}

fn time(shape: &ReduceShape, host_step: HostTakeover) -> u64 {
    let costs = COSTS.get(shape.group);
    let (terms, sets) = (u64::from(shape.terms()), u64::from(shape.sets()));
    let doubled = u64::from(shape.term_exponent(shape.lg_buckets()));
    let shift = u64::from(shape.shifts.last().copied().unwrap_or(0));
    let levels = |count: u64| u64::from(lg_ceil(count)) * costs.device_add;
    let (doublings, points) = match host_step {
        HostTakeover::Terms => (shift + doubled, sets * terms),
        HostTakeover::Sets => (shift, sets),
        HostTakeover::Vectors => (0, 1),
    };
    let host = doublings * costs.host_double + points * costs.host_add;
    let over_terms = 2 * LAUNCH_NS + doubled * costs.device_double + levels(terms);
    let over_sets = LAUNCH_NS + shift * costs.device_double + levels(sets);
    let device = match host_step {
        HostTakeover::Terms => 0,
        HostTakeover::Sets => over_terms,
        HostTakeover::Vectors => over_terms + over_sets,
    };
    u64::from(shape.vectors) * host + device
}
