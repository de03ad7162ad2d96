//! MSMs of the engine with GPUs in several passes: over scalars as they come, and where memory is
//! short.

use capstan::{
    curve::{G1Affine, G2Affine, points::CurvePoint, scalars::ScalarEncoding},
    engine::Control,
    error::Result,
};

use crate::{
    cases::{Case, engine, is_exhausted, passes, take_all_but},
    emulated,
    rig::{Rig, each_seed},
};

/// Without tables, with tables, with sliding windows, each with pieces in order and not.
fn a_slow_sender<A: CurvePoint>(rig: &Rig, n: usize) {
    let (engine, case) = (engine(rig), Case::<A>::new(n, 1, ScalarEncoding::Canonical));
    let object = case.object();
    let half = n / 2;
    let orders = [vec![0..half, half..n], vec![0..half, half + 5..n - 1, half..half + 5, n - 1..n]];
    let mut seen = Vec::new();
    for turn in 1..=9 {
        // Only the kinds of windows that are new.
        if [1, 2, 8, 9].contains(&turn) {
            let device =
                case.slowly(&engine, &object, &orders[turn % 2], &Control::default()).unwrap();
            assert!(device.contains(", passes as scalars arrive, "), "{device}");
            assert!(passes(&device) > 1, "{device}");
            seen.push(device);
        } else {
            case.first(&engine, &object, 1);
        }
    }
    assert!(seen[0].contains("no tables"), "{seen:?}");
    assert!(seen[1].contains(" tables") && seen[1].contains(" windows of"), "{seen:?}");
    assert!(seen[2].contains("sliding") && seen[3].contains("sliding"), "{seen:?}");
}

#[test]
fn passes_take_a_slow_senders_scalars_as_they_come() {
    let rig = Rig::new();
    each_seed(&rig, |rig| {
        if rig.takes(1) {
            a_slow_sender::<G1Affine>(rig, 45);
        }
        if rig.takes(3) {
            a_slow_sender::<G2Affine>(rig, 33);
        }
    });
}

#[test]
fn few_scalars_wait_for_each_other() {
    let rig = Rig::new();
    let (engine, case) = (engine(&rig), Case::<G1Affine>::new(31, 1, ScalarEncoding::Canonical));
    let pieces = [0..15, 15..31];
    let device = case.slowly(&engine, &case.object(), &pieces, &Control::default()).unwrap();
    assert!(passes(&device) == 1 && !device.contains("arrive"), "{device}");
}

/// Runs with ever more memory, until it is enough, for which passes are cut. Says what was done,
/// and how often it was not enough.
fn ever_more_memory(rig: &Rig, run: impl Fn() -> Result<String>) -> (String, u32) {
    let (mut failed, mut left) = (0, 1 << 10);
    loop {
        let held = take_all_but(rig, left);
        let done = run();
        drop(held);
        match done {
            Ok(device) => {
                assert!(passes(&device) > 1 && !device.contains("arrive"), "{device}");
                return (device, failed);
            }
            Err(error) => assert!(is_exhausted(&error), "with {left} bytes: {error:?}"),
        }
        failed += 1;
        left = left * 9 / 8;
    }
}

/// All of `case`, over new bases, of which there are no tables; and then with all memory.
fn over_new_bases<A: CurvePoint>(rig: &Rig, case: &Case<A>) -> String {
    let (engine, go) = (engine(rig), Control::default());
    let (device, failed) = ever_more_memory(rig, || case.whole(&engine, &case.object(), &go));
    assert!(failed > 5, "{failed} failed");
    let ample = case.whole(&engine, &case.object(), &go).unwrap();
    assert_eq!(passes(&ample), 1, "{ample}");
    device
}

#[test]
fn passes_are_cut_where_memory_is_short() {
    if emulated::driver().is_none() {
        println!("skipped: what a GPU takes for so few scalars is all but the same in every pass");
        return;
    }
    let rig = Rig::new();
    // By bucket sets.
    let device = over_new_bases(&rig, &Case::<G1Affine>::new(25, 1, ScalarEncoding::Canonical));
    assert!(device.contains("no tables"), "{device}");
    // By vectors, and then by sets.
    over_new_bases(&rig, &Case::<G2Affine>::new(3, 5, ScalarEncoding::Signed(2)));
    // By points, since tables leave one set. They are made before memory is short, for few points,
    // so that the workspace is too small.
    let case = Case::<G1Affine>::new(31, 1, ScalarEncoding::Canonical);
    let (engine, object, go) = (engine(&rig), case.object(), Control::default());
    for _ in 0..2 {
        case.first(&engine, &object, 3);
    }
    let (device, _) = ever_more_memory(&rig, || case.whole(&engine, &object, &go));
    assert!(!device.contains("no tables") && !device.contains("sets"), "{device}");
    case.first(&engine, &object, 3);
}
