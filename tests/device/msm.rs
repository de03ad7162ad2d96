//! Bases that the engine with GPUs keeps on the device: LRU eviction, more tables with more uses.

use std::sync::atomic::{AtomicU32, Ordering};

use capstan::{
    curve::{G1Affine, G2Affine, scalars::ScalarEncoding},
    engine::{JobControl, cuda::GpuPolicy},
};

use crate::{
    emulated,
    known_msms::{
        MsmCase, engine, engine_with, is_exhausted, lease_all_but, splitting_policy,
        untested_policy,
    },
    rig::DeviceRig,
};

#[test]
fn least_recently_used_bases_are_evicted() {
    const PART: usize = 9;
    let points = if emulated::driver().is_some() { 12_000 } else { 200_000 };
    // Memory for three objects and for an MSM over a part of one.
    let left = 7 * points * size_of::<G1Affine>() / 2;
    let rig = DeviceRig::new();
    let (engine, case) =
        (engine(&rig), MsmCase::<G1Affine>::new(points, 1, ScalarEncoding::Canonical));
    let held = lease_all_but(&rig, left as u64);
    let objects = [(); 5].map(|()| case.object());
    let (has, none) = (true, false);
    for (number, expected) in [
        (0, [has, none, none, none, none]),
        (1, [has, has, none, none, none]),
        (2, [has, has, has, none, none]),
        // Its tables do not fit; no object is evicted for them.
        (0, [has, has, has, none, none]),
        (3, [has, none, has, has, none]),
        (4, [has, none, none, has, has]),
        (1, [none, has, none, has, has]),
        (4, [none, has, none, has, has]),
        (0, [has, has, none, none, has]),
    ] {
        case.run_prefix(&engine, &objects[number], PART);
        let found = objects.each_ref().map(|object| engine.has_resident(&MsmCase::bases(object)));
        assert_eq!(found, expected, "after {number}");
    }
    drop(held);
    case.run_prefix(&engine, &objects[2], PART);
    let found = objects.each_ref().map(|object| engine.has_resident(&MsmCase::bases(object)));
    assert_eq!(found, [has, has, has, none, has], "with all memory");
}

#[test]
fn bases_larger_than_a_device_are_summed_in_parts() {
    let rig = DeviceRig::new();
    // Room for 11 points.
    let bases_bytes_max = Some(12 * size_of::<G1Affine>() as u64);
    let engine = engine_with(&rig, GpuPolicy { bases_bytes_max, ..splitting_policy() });
    let go = JobControl::default();
    for (encoding, batch) in [(ScalarEncoding::Canonical, 1), (ScalarEncoding::Signed(2), 3)] {
        let case = MsmCase::<G1Affine>::new(31, batch, encoding);
        let object = case.object();
        for pieces in [vec![0..15, 15..31], vec![15..31, 0..15], vec![0..3, 3..4, 4..31]] {
            let device = case.run(&engine, &object, &pieces, &go).unwrap();
            assert!(device.ends_with(", the bases in 4 parts"), "{device}");
        }
        // A part that fits does not need the rest of its object.
        if batch == 1 {
            let device = case.run_prefix(&engine, &object, 5);
            assert!(!device.contains("parts"), "{device}");
        }
        assert!(!engine.has_resident(&MsmCase::bases(&object)), "the object is not resident");
    }
}

#[test]
fn bases_get_more_tables_the_more_they_are_used() {
    let n = if emulated::driver().is_some() { 31 } else { 300 };
    let rig = DeviceRig::new();
    let case = MsmCase::<G1Affine>::new(n, 1, ScalarEncoding::Montgomery);
    let engines = [(); 2].map(|()| engine_with(&rig, untested_policy()));
    let plans = |engine| {
        let object = case.object();
        let plan = |_| case.run_whole(engine, &object, &JobControl::default()).unwrap();
        (1..=9).map(plan).collect::<Vec<_>>()
    };
    let ample = plans(&engines[0]);
    assert!(ample[0].ends_with("no tables"), "{ample:?}");
    assert!(ample[1].ends_with("tables") && !ample[6].contains("sliding"), "{ample:?}");
    assert_eq!((&ample[1], &ample[7]), (&ample[6], &ample[8]), "same plan in between");
    assert!(ample[7].contains("sliding") && ample[7].ends_with("255 tables"), "{ample:?}");
    // Bases and 255 tables do not fit.
    let held = lease_all_but(&rig, 255 * (n * size_of::<G1Affine>()) as u64);
    let short = plans(&engines[1]);
    assert_eq!(short[..7], ample[..7]);
    assert_eq!((&short[7], &short[8]), (&ample[6], &ample[6]));
    drop(held);
}

#[test]
fn concurrent_msms_are_right_while_workspaces_and_bases_are_evicted() {
    let sizes = if emulated::driver().is_some() { [9, 31, 120] } else { [9, 3000, 200_000] };
    let rig = DeviceRig::new();
    let engine = engine(&rig);
    let in_g1 = sizes.map(|n| MsmCase::<G1Affine>::new(n, 1, ScalarEncoding::Montgomery));
    let in_g2 = sizes.map(|n| MsmCase::<G2Affine>::new(n / 3, 2, ScalarEncoding::Canonical));
    // Memory for the largest MSM and little else.
    let held = lease_all_but(&rig, 40 << 20);
    let successes = AtomicU32::new(0);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (engine, in_g1, in_g2, successes) = (&engine, &in_g1, &in_g2, &successes);
            threads.spawn(move || {
                for round in 0..6 {
                    let (index, go) = ((thread + round) % sizes.len(), JobControl::default());
                    let done = [
                        in_g1[index].run_whole(engine, &in_g1[index].object(), &go),
                        in_g2[index].run_whole(engine, &in_g2[index].object(), &go),
                    ];
                    for done in done {
                        assert!(done.as_ref().err().is_none_or(is_exhausted), "{done:?}");
                        successes.fetch_add(u32::from(done.is_ok()), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(successes.into_inner() > 24, "half of all");
    drop(held);
    for case in &in_g1 {
        case.run_whole(&engine, &case.object(), &JobControl::default()).unwrap();
    }
}
