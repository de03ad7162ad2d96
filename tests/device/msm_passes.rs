//! MSMs of the engine with GPUs in several passes: over scalars that are still arriving, and if
//! device memory is short.

use capstan::{
    curve::{G1Affine, G2Affine, points::CurvePoint, scalars::ScalarEncoding},
    engine::JobControl,
    error::Result,
};

use crate::{
    emulated,
    known_msms::{MsmCase, engine, is_exhausted, lease_all_but, pass_count},
    rig::{DeviceRig, each_seed},
    sweep,
};

/// MSMs without tables, with tables and with sliding windows; pieces in order and out of order.
fn check_slow_sender<A: CurvePoint>(rig: &DeviceRig, n: usize) {
    let (engine, case) = (engine(rig), MsmCase::<A>::new(n, 1, ScalarEncoding::Canonical));
    let object = case.object();
    let half = n / 2;
    let orders = [vec![0..half, half..n], vec![0..half, half + 5..n - 1, half..half + 5, n - 1..n]];
    let mut plans = Vec::new();
    for turn in 1..=9 {
        // Only the uses that bring another kind of windows.
        if [1, 2, 8, 9].contains(&turn) {
            let device = case
                .run_slowly(&engine, &object, &orders[turn % 2], &JobControl::default())
                .unwrap();
            assert!(device.contains(", passes as scalars arrive, "), "{device}");
            assert!(pass_count(&device) > 1, "{device}");
            plans.push(device);
        } else {
            case.run_prefix(&engine, &object, 1);
        }
    }
    assert!(plans[0].contains("no tables"), "{plans:?}");
    assert!(plans[1].contains(" tables") && plans[1].contains(" windows of"), "{plans:?}");
    assert!(plans[2].contains("sliding") && plans[3].contains("sliding"), "{plans:?}");
}

#[test]
fn passes_start_before_all_scalars_have_arrived() {
    let rig = DeviceRig::new();
    each_seed(&rig, |rig| {
        if rig.runs_case(1) {
            check_slow_sender::<G1Affine>(rig, 45);
        }
        if rig.runs_case(3) {
            check_slow_sender::<G2Affine>(rig, 33);
        }
    });
}

#[test]
fn few_scalars_are_summed_in_one_pass() {
    let rig = DeviceRig::new();
    let (engine, case) = (engine(&rig), MsmCase::<G1Affine>::new(31, 1, ScalarEncoding::Canonical));
    let pieces = [0..15, 15..31];
    let device = case.run_slowly(&engine, &case.object(), &pieces, &JobControl::default()).unwrap();
    assert!(pass_count(&device) == 1 && !device.contains("arrive"), "{device}");
}

/// Retries `run` with more and more free device memory until it succeeds, which must take several
/// passes. Returns the executor's description and the number of failures.
fn retry_with_more_memory(rig: &DeviceRig, run: impl Fn() -> Result<String>) -> (String, u32) {
    let (mut failed, mut left) = (0, 1 << 10);
    loop {
        let held = lease_all_but(rig, left);
        let done = run();
        drop(held);
        match done {
            Ok(device) => {
                assert!(pass_count(&device) > 1 && !device.contains("arrive"), "{device}");
                return (device, failed);
            }
            Err(error) => assert!(is_exhausted(&error), "with {left} bytes: {error:?}"),
        }
        failed += 1;
        left = left * 9 / 8;
    }
}

/// Runs `case` over new bases, which have no tables: first with little memory, then with all of it.
fn check_new_bases<A: CurvePoint>(rig: &DeviceRig, case: &MsmCase<A>) -> String {
    let (engine, go) = (engine(rig), JobControl::default());
    let (device, failed) =
        retry_with_more_memory(rig, || case.run_whole(&engine, &case.object(), &go));
    assert!(failed > 5, "{failed} failed");
    let ample = case.run_whole(&engine, &case.object(), &go).unwrap();
    assert_eq!(pass_count(&ample), 1, "{ample}");
    device
}

#[test]
fn msms_run_in_several_passes_if_memory_is_short() {
    if emulated::driver().is_none() {
        println!("skipped: with this few scalars, more passes save almost no memory on a GPU");
        return;
    }
    let rig = DeviceRig::new();
    // Split by bucket sets.
    let device = check_new_bases(&rig, &MsmCase::<G1Affine>::new(25, 1, ScalarEncoding::Canonical));
    assert!(device.contains("no tables"), "{device}");
    // Split by vectors, then by sets.
    check_new_bases(&rig, &MsmCase::<G2Affine>::new(3, 5, ScalarEncoding::Signed(2)));
    // Split by points, since with tables there is one set. The tables are made before memory is
    // short, by MSMs over few points, so that the workspace is too small for the whole case.
    let case = MsmCase::<G1Affine>::new(31, 1, ScalarEncoding::Canonical);
    let (engine, object, go) = (engine(&rig), case.object(), JobControl::default());
    for _ in 0..2 {
        case.run_prefix(&engine, &object, 3);
    }
    let (device, _) = retry_with_more_memory(&rig, || case.run_whole(&engine, &object, &go));
    assert!(!device.contains("no tables") && !device.contains("sets"), "{device}");
    case.run_prefix(&engine, &object, 3);
}

/// Also if scalars come fast, or all at once.
#[test]
fn a_job_that_yields_is_summed_in_short_passes() {
    yield_under(&[2]);
}

#[test]
#[ignore = "sweep"]
fn a_job_that_yields_is_summed_in_short_passes_under_each_schedule() {
    yield_under(&sweep::cases("schedules of MSMs that yield", 0..4));
}

fn yield_under(schedules: &[usize]) {
    let rig = DeviceRig::new();
    let yielding = JobControl::default();
    yielding.set_yielding(true);
    each_seed(&rig, |rig| {
        if !schedules.iter().any(|schedule| rig.runs_case(*schedule)) {
            return;
        }
        let engine = engine(rig);
        let case = MsmCase::<G1Affine>::new(45, 1, ScalarEncoding::Canonical);
        let object = case.object();
        let alone = case.run_whole(&engine, &object, &JobControl::default()).unwrap();
        let at_once = std::slice::from_ref(&(0..45));
        for device in [
            case.run_whole(&engine, &object, &yielding).unwrap(),
            case.run(&engine, &object, at_once, &yielding).unwrap(),
        ] {
            assert!(pass_count(&device) > pass_count(&alone) + 1, "{device}, alone: {alone}");
        }
        let rows = MsmCase::<G1Affine>::new(33, 3, ScalarEncoding::Signed(2));
        let device = rows.run_whole(&engine, &rows.object(), &yielding).unwrap();
        assert!(pass_count(&device) >= 3, "{device}");
    });
}
