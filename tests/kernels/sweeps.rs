//! The tests of this suite under each seed of the emulated driver, with the least shared memory of
//! any device, and on a driver that checks every memory access.

use std::path::Path;

use crate::{
    repeat::{Repeat, all_tests, each_test, on},
    sanitized, sweep,
};

#[test]
#[ignore = "sweep"]
fn every_test_passes_under_every_seed() {
    for case in sweep::cases("kernels, seeds", each_test(|_| true)) {
        case.run();
    }
}

#[test]
#[ignore = "sweep"]
fn transforms_of_words_are_right_with_the_least_shared_memory() {
    let is_wanted = |test: &str| test.starts_with("ntt31::") || test.starts_with("products31::");
    for case in sweep::cases("kernels, least shared memory", on("small", each_test(is_wanted))) {
        case.run();
    }
}

/// This is one case, because building the driver takes long.
#[test]
#[ignore = "sweep"]
fn every_test_passes_under_the_sanitizers() {
    if !sweep::is_chosen("kernels, sanitizers") {
        return;
    }
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let Some(variables) = sanitized::variables("sanitized", &kernels) else { return };
    all_tests(&variables).iter().for_each(Repeat::run);
}
