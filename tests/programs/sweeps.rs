//! The tests of this suite with all cases, and on another emulated device.

use crate::{
    repeat::{each_test_once, on},
    sweep,
};

#[test]
#[ignore = "sweep"]
fn every_test_passes_with_all_cases() {
    for case in sweep::cases("programs, all cases", each_test_once(|_| true)) {
        case.run();
    }
}

/// This device has no binary products, so eliminations use another kernel. Products of integers are
/// planned for its limits.
#[test]
#[ignore = "sweep"]
fn eliminations_and_integers_are_right_on_a_device_without_bit_products() {
    let is_wanted = |test: &str| test.contains("gf2") || test.contains("integers");
    for case in sweep::cases("programs, rtx5090", on("rtx5090", each_test_once(is_wanted))) {
        case.run();
    }
}
