//! The tests of this suite under each seed of the emulated driver, and on other emulated devices.

use crate::{
    repeat::{each_test, each_test_once, on},
    sweep,
};

/// Modules whose tests use no device, or start a process that chooses its device.
const ON_THE_HOST: [&str; 5] = ["plans::", "resident::", "waves::", "window_choice::", "windows::"];

/// Reductions are the same on every device.
const SAME_ON_ALL_DEVICES: &str = "reduce::";

fn uses_the_device(test: &str) -> bool {
    !ON_THE_HOST.iter().any(|module| test.starts_with(module))
}

#[test]
#[ignore = "sweep"]
fn every_test_passes_under_every_seed() {
    let plans = each_test_once(|test| test.starts_with("plans::"));
    let tests = each_test(uses_the_device).into_iter().chain(plans);
    for case in sweep::cases("msm, seeds", tests) {
        case.run();
    }
}

/// Blocks of these devices have 99 and 163 KiB of shared memory; those of the default one have 227.
#[test]
#[ignore = "sweep"]
fn every_test_passes_on_devices_with_less_shared_memory() {
    let is_wanted = |test: &str| uses_the_device(test) && !test.starts_with(SAME_ON_ALL_DEVICES);
    let tests = ["rtx4090", "a100"].map(|device| on(device, each_test(is_wanted)));
    for case in sweep::cases("msm, devices", tests.into_iter().flatten()) {
        case.run();
    }
}

/// This device has the least shared memory of all.
#[test]
#[ignore = "sweep"]
fn msms_are_right_with_the_least_shared_memory() {
    let msms = on("small", each_test(|test| test.starts_with("complete_msms::")));
    for case in sweep::cases("msm, least shared memory", msms) {
        case.run();
    }
}
