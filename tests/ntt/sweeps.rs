//! The tests of this suite under each seed of the emulated driver, and on another emulated device.

use crate::{
    repeat::{each_test, on},
    sweep,
};

/// Modules whose tests use no device.
const ON_THE_HOST: [&str; 2] = ["constants::", "planner::"];

fn uses_the_device(test: &str) -> bool {
    !ON_THE_HOST.iter().any(|module| test.starts_with(module))
}

#[test]
#[ignore = "sweep"]
fn every_test_passes_under_every_seed() {
    for case in sweep::cases("ntt, seeds", each_test(uses_the_device)) {
        case.run();
    }
}

/// Blocks of this device have 99 KiB of shared memory, so tiles are half as large. With 163 KiB,
/// they are those of the default device (`src/gpu/ntt/passes.rs`).
#[test]
#[ignore = "sweep"]
fn every_test_passes_on_a_device_with_less_shared_memory() {
    for case in sweep::cases("ntt, rtx4090", on("rtx4090", each_test(uses_the_device))) {
        case.run();
    }
}
