//! Which GPU architectures a build compiles for.

#[path = "../build/archs.rs"]
mod archs;

use archs::{ALL, of_host, parse};

const KNOWN: [u32; 10] = [75, 80, 86, 87, 89, 90, 100, 103, 120, 121];

#[test]
fn a_build_is_for_the_gpus_of_its_host() {
    assert_eq!(of_host(&[89], &KNOWN), Some(vec![89]));
    assert_eq!(of_host(&[90, 80, 90], &KNOWN), Some(vec![80, 90]));
    assert_eq!(of_host(&[121], &KNOWN), Some(vec![121]));
}

#[test]
fn gpus_that_are_too_old_are_ignored() {
    assert_eq!(of_host(&[61, 89], &KNOWN), Some(vec![89]));
    assert_eq!(of_host(&[75], &KNOWN), None);
    assert_eq!(of_host(&[], &KNOWN), None);
}

#[test]
fn a_gpu_that_nvcc_does_not_know_needs_a_build_for_all() {
    assert_eq!(of_host(&[89, 130], &KNOWN), None);
    assert_eq!(of_host(&[89], &[]), None);
}

#[test]
fn lists_are_sorted_and_checked() {
    assert_eq!(parse("90, 80,90"), Some(vec![80, 90]));
    for list in ["", "80,", "sm_80", "all,80"] {
        assert_eq!(parse(list), None, "{list}");
    }
    assert!(ALL.is_sorted());
}
