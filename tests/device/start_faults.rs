//! Driver calls that fail while a device is opened and tested: the device is not used, or the fault
//! costs nothing.

use std::iter;

use capstan::{
    curve::{G1Affine, Group, scalars::ScalarEncoding},
    device,
    engine::{
        JobControl,
        cpu::CpuEngine,
        cuda::{
            CudaEngine, GpuPolicy, GpuUnavailable,
            self_test::{EMULATED, NttBatch, SelfTestBases, SelfTestSizes},
        },
    },
};

use crate::{
    known_msms::MsmCase,
    rig::{control, first_device, on_emulated_driver, options},
    seeded_faults::seeds,
    sweep,
    transforms::PATIENCE,
};

/// A job of each kind, as small as it can be.
const SIZES: SelfTestSizes = SelfTestSizes {
    points: &[SelfTestBases { group: Group::G1, count: 2 }],
    batches: &[NttBatch { lg_n: 1, rows: 1, planned_full: false }],
    words: &[],
    // One job at a time, so that the calls of all starts have the same order.
    job_bytes: u64::MAX,
    ..EMULATED
};

/// One of this many calls fails; a seed chooses the first one.
const STEP: u64 = 1201;

fn start() -> Result<CudaEngine, GpuUnavailable> {
    let opened = device::open(&first_device(), &options(PATIENCE).0)?;
    let policy = GpuPolicy { self_test: Some(SIZES), ..GpuPolicy::default() };
    CudaEngine::new(CpuEngine::new(1).unwrap(), opened, policy)
}

/// Starts with each of these faults, which are reached. Returns how many starts failed. A device
/// that is used computes right results.
fn start_with(case: &MsmCase<G1Affine>, faults: impl Iterator<Item = String>) -> usize {
    let mut left_out = 0;
    for fault in faults {
        control::fault(&fault);
        let (started, calls) = (start(), control::calls());
        control::fault("");
        let nth: u64 = fault.split(':').nth(1).unwrap().parse().unwrap();
        assert!(calls >= nth, "{fault} was not reached");
        match started {
            Ok(engine) => run(case, &engine, &fault),
            Err(_) => left_out += 1,
        }
        control::reset();
    }
    left_out
}

fn run(case: &MsmCase<G1Affine>, engine: &CudaEngine, fault: &str) {
    let sums = case.run_whole(engine, &case.object(), &JobControl::default());
    sums.unwrap_or_else(|error| panic!("after {fault}: {error:?}"));
}

/// The number of such calls of a start.
fn count(case: &MsmCase<G1Affine>, call: &str) -> u64 {
    control::reset();
    control::fault(&format!("{call}:1000000000:700"));
    let engine = start().unwrap();
    let calls = control::calls();
    control::fault("");
    run(case, &engine, call);
    drop(engine);
    control::reset();
    calls
}

/// A job for a device that has started.
fn small_msm() -> MsmCase<G1Affine> {
    MsmCase::new(5, 1, ScalarEncoding::Montgomery)
}

/// One in [`STEP`] calls of a start fails, each in another start, and so does the last one.
#[test]
fn a_device_that_fails_at_any_driver_call_of_its_start_is_not_used() {
    let case = small_msm();
    on_emulated_driver(PATIENCE, |_| {
        let calls = count(&case, "any");
        assert!(calls > 500, "{calls} calls");
        let in_strides = |seed| (1 + seed % STEP..calls).step_by(STEP as usize);
        let tried: Vec<_> = seeds(1).flat_map(in_strides).chain([calls]).collect();
        let codes = [700, 2, 719].into_iter().cycle();
        let faults = iter::zip(&tried, codes).map(|(nth, code)| format!("any:{nth}:{code}"));
        let left_out = start_with(&case, faults);
        println!("{left_out} of {} starts failed, of {calls} calls", tried.len());
        assert!(left_out > 0);
    });
}

/// The memory of the last job is zeroed after the job has ended, which fails.
#[test]
fn a_device_that_fails_at_the_end_of_its_start_is_not_used() {
    let case = small_msm();
    on_emulated_driver(PATIENCE, |_| {
        let zeroed = count(&case, "memset");
        assert_eq!(start_with(&case, [format!("memset:{zeroed}:700")].into_iter()), 1);
    });
}

#[test]
#[ignore = "sweep"]
fn a_device_that_fails_at_any_of_the_last_calls_of_its_start_is_not_used() {
    let case = small_msm();
    on_emulated_driver(PATIENCE, |_| {
        let (calls, zeroed) = (count(&case, "any"), count(&case, "memset"));
        // The last calls zero the memory of the last jobs.
        let codes = iter::zip(0.., [700, 2, 719, 700]);
        let any = codes.map(|(back, code)| format!("any:{}:{code}", calls - back));
        let fills = (0..8).map(|back| format!("memset:{}:700", zeroed - back));
        for fault in sweep::cases("last calls of a start", any.chain(fills)) {
            let left_out = start_with(&case, iter::once(fault.clone()));
            assert!(left_out == 1 || fault.starts_with("any"), "{fault}");
        }
    });
}
