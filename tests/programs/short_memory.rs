//! MSMs of programs whose bases a GPU has no memory for, alone or with those of other MSMs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ark_ff::Field;
use capstan::{
    curve::{Fr, G1Affine, G2Affine, points::CurvePoint},
    engine::{JobControl, cuda::GpuPolicy},
    error::{EngineError, Limit, Result},
    exec::{GpuExecutor, RunOperands, RunReport, start_run},
    program::{OutputKind, OutputSpec},
    verify::Verification,
};

use crate::{
    gpu,
    msm::{msm, points, sums},
    rig::{Call, OutputValue, bases, powers},
};

const LENGTH: usize = 40;

/// A call that sums the powers of 3 over each of `groups` bases.
fn call_of<A: CurvePoint>(groups: usize) -> (Call, OutputValue) {
    let points = points::<A>(LENGTH);
    let mut call = Call::default();
    let (base, first) = (Fr::from(3), Fr::from(1));
    let powers = call.push(powers(first, base, LENGTH as u64));
    for _ in 0..groups {
        call.bases.push(bases(points.clone()));
        let sum = call.push(msm::<A>(powers, 0));
        call.outputs.push(sum);
    }
    let powers = (0..LENGTH as u64).map(|power| Fr::from(3).pow([power])).collect();
    (call, sums(&points, &vec![powers]))
}

/// Runs a call on a GPU only.
fn run_on_gpu(executor: &GpuExecutor, call: &Call, verify: Verification) -> Result<RunReport> {
    let output = |value: &_| OutputSpec { value: *value, kind: OutputKind::Points };
    let outputs: Vec<_> = call.outputs.iter().map(output).collect();
    let mut run = start_run(executor, call.program()?, &[], &outputs, verify)?;
    run.limit_time_on_host(std::time::Duration::ZERO);
    let sinks = vec![None; outputs.len()];
    let operands = RunOperands { bases: &call.bases, sinks: &sinks, ..RunOperands::default() };
    loop {
        if let Some(report) = run.step(&operands, &JobControl::default())? {
            return Ok(report);
        }
    }
}

fn assert_sums(report: &RunReport, expected: &OutputValue) {
    for sums in &report.points {
        assert_eq!(sums.clone().map(OutputValue::Points).as_ref(), Some(expected));
    }
}

fn bases_are_summed_in_parts<A: CurvePoint>() {
    let bases_bytes_max = Some(12 * A::GROUP.affine_bytes() as u64);
    let policy = GpuPolicy { bases_bytes_max, ..GpuPolicy::default() };
    let executor = gpu::open(10, Arc::new(|| true), policy);
    let (call, expected) = call_of::<A>(1);
    for verify in [Verification::None, Verification::Probabilistic] {
        let report = run_on_gpu(&executor, &call, verify).unwrap();
        assert_sums(&report, &expected);
        let step = &report.steps[1];
        assert!(step.method.ends_with(", the bases in 4 parts"), "{}", step.method);
        assert_eq!(step.verified, verify);
    }
}

#[test]
fn bases_that_a_gpu_cannot_hold_are_summed_in_parts() {
    bases_are_summed_in_parts::<G1Affine>();
    bases_are_summed_in_parts::<G2Affine>();
}

/// Sums hold their bases on the GPU until they are read. If an MSM gets no memory, it begins again
/// once earlier sums have been read.
#[test]
fn an_msm_that_gets_no_memory_waits_for_earlier_sums() {
    let (leases, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let gate = {
        let (leases, refused) = (leases.clone(), refused.clone());
        move || leases.fetch_add(1, Ordering::Relaxed) != refused.load(Ordering::Relaxed)
    };
    let executor = gpu::open(10, Arc::new(gate), GpuPolicy::default());
    let (call, expected) = call_of::<G1Affine>(3);
    let begun = leases.load(Ordering::Relaxed);
    let report = run_on_gpu(&executor, &call, Verification::None).unwrap();
    assert_sums(&report, &expected);
    let count = leases.load(Ordering::Relaxed) - begun;
    let mut stayed = 0;
    for number in 0..count {
        refused.store(leases.load(Ordering::Relaxed) + number, Ordering::Relaxed);
        match run_on_gpu(&executor, &call, Verification::None) {
            Ok(report) => {
                assert_sums(&report, &expected);
                stayed += 1;
            }
            Err(EngineError::Exhausted { limit: Limit::DeviceMemory, .. }) => {}
            Err(error) => panic!("lease {number}: {error}"),
        }
    }
    // Leases of the second and the third MSM.
    assert!(stayed > 0 && stayed < count, "{stayed} of {count}");
}
