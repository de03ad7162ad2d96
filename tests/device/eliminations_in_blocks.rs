//! Eliminations of matrices in the host's memory, of which the GPU has a block of columns at a
//! time: with wrong results, without memory, cancelled, and while others wait.

use std::sync::Arc;

use capstan::{
    engine::{JobControl, cpu::ArkworksEngine},
    error::EngineError,
    exec::GpuExecutor,
    verify::Verification,
};

use crate::{
    elimination_faults::{Elimination, count_stops, engine},
    rig::{CheckLimit, DeviceRig, control, on_emulated_driver},
    transforms::PATIENCE,
};

/// Its host has values in memory, and eliminates in blocks of one strip.
fn in_blocks(rig: &DeviceRig, limit: &CheckLimit) -> GpuExecutor {
    let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
    GpuExecutor::new(engine(rig, limit, Some(1)), Some(oracle))
}

fn is_in_blocks(method: &str) -> bool {
    method.contains("2 panels in 2 blocks of columns by ")
}

#[test]
fn full_checks_refuse_wrong_eliminations_in_blocks() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = in_blocks(rig, &CheckLimit::new());
        // The first block eliminates panel 0, the second one adds it again and eliminates panel 1.
        let faults = [
            "gf2_to_strips:2:flip5",
            "gf2_to_strips:4:flip5",
            "gf2_pivots:2:flip9",
            "gf2_update:1:flip0",
            "gf2_update:2:flip0",
            "gf2_update:3:flip0",
            "gf2_from_strips:2:flip5",
        ];
        let elimination = Elimination { verify: Verification::Full, ..Elimination::reduction() };
        let run = || elimination.run(&executor.host, &JobControl::default());
        let right = run().unwrap();
        assert!(is_in_blocks(&right.method), "{}", right.method);
        for fault in faults {
            control::fault(fault);
            assert_eq!(run().err(), Some(EngineError::Corrupt), "{fault}");
            control::fault("");
            assert!(run().unwrap().bytes == right.bytes, "{fault}");
        }
    });
}

#[test]
fn an_elimination_in_blocks_stops_at_every_check_and_needs_all_of_its_memory() {
    let rig = DeviceRig::new();
    let limit = CheckLimit::new();
    let executor = in_blocks(&rig, &limit);
    for elimination in [Elimination::reduction(), Elimination::echelon()] {
        let run = || elimination.run(&executor.host, &JobControl::default());
        let right = run().unwrap();
        assert!(is_in_blocks(&right.method), "{}", right.method);
        let stops = count_stops(&limit, &right.bytes, run);
        assert!(stops >= 8, "{stops} stops");
        let mut refused = 0;
        for nth in 1.. {
            rig.lease_refusal.arm(nth);
            let done = run().unwrap();
            assert!(done.bytes == right.bytes);
            if !rig.lease_refusal.is_done() {
                rig.lease_refusal.arm(0);
                break;
            }
            // The host takes over.
            assert_eq!(done.method, "");
            refused += 1;
        }
        // Both matrices in strips, their words, what is not used, the leading columns, and the
        // working memory.
        assert!(refused >= 9, "{refused} leases");
    }
}

#[test]
fn an_elimination_in_blocks_lets_others_go_first() {
    let rig = DeviceRig::new();
    let executor = in_blocks(&rig, &CheckLimit::new());
    let yielding = JobControl::default();
    yielding.set_yielding(true);
    let elimination = Elimination::echelon();
    let alone = elimination.run(&executor.host, &JobControl::default()).unwrap();
    let yielded = elimination.run(&executor.host, &yielding).unwrap();
    assert!(is_in_blocks(&yielded.method) && yielded.bytes == alone.bytes);
}
