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

#[test]
fn a_device_that_fails_at_any_driver_call_of_its_start_is_not_used() {
    let case = MsmCase::<G1Affine>::new(5, 1, ScalarEncoding::Montgomery);
    let run = |engine: &CudaEngine| {
        case.run_whole(engine, &case.object(), &JobControl::default()).unwrap()
    };
    on_emulated_driver(PATIENCE, |_| {
        control::fault("any:1000000000:700");
        let engine = start().unwrap();
        let calls = control::calls();
        assert!(calls > 500, "{calls} calls");
        run(&engine);
        drop(engine);
        let in_strides = |seed| (1 + seed % STEP..calls).step_by(STEP as usize);
        // The last calls release memory.
        let tried: Vec<_> = seeds(1).flat_map(in_strides).chain(calls - 3..=calls).collect();
        let codes = [700, 2, 719].into_iter().cycle();
        let mut left_out = 0;
        for (&nth, code) in iter::zip(&tried, codes) {
            control::fault(&format!("any:{nth}:{code}"));
            let started = start();
            assert!(control::calls() >= nth, "number {nth} was not reached");
            control::fault("");
            match started {
                Ok(engine) => drop(run(&engine)),
                Err(_) => left_out += 1,
            }
            control::reset();
        }
        println!("{left_out} of {} starts failed, of {calls} calls", tried.len());
        assert!(left_out > 0);
    });
}
