//! The tests of this suite with all sizes, and those of the engine with GPUs on other emulated
//! devices.

use crate::{
    repeat::{each_test_once, on},
    sweep,
};

/// These include the tests of long computations that are cancelled.
#[test]
#[ignore = "sweep"]
fn every_test_passes_with_all_sizes() {
    for case in sweep::cases("engine, all sizes", each_test_once(|_| true)) {
        case.run();
    }
}

/// Blocks of this device have 99 KiB of shared memory.
#[test]
#[ignore = "sweep"]
fn the_engine_with_gpus_is_right_with_less_shared_memory() {
    let tests = each_test_once(|test| test.starts_with("gpu::"));
    for case in sweep::cases("engine, rtx4090", on("rtx4090", tests)) {
        case.run();
    }
}

/// This device has the least shared memory of all.
#[test]
#[ignore = "sweep"]
fn msms_are_right_with_the_least_shared_memory() {
    let tests = each_test_once(|test| test.starts_with("gpu::msm"));
    for case in sweep::cases("engine, least shared memory", on("small", tests)) {
        case.run();
    }
}
