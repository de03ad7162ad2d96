//! Which GPU architectures a build compiles for.

#[path = "../build/archs.rs"]
mod archs;

use std::{fs, path::Path};

use archs::{ALL, SHARED_PTX, of_host, parse};

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

/// The numbers with which the kernels in a folder compare `__CUDA_ARCH__`.
fn compared_archs(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(compared_archs(&path));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| line.contains("__CUDA_ARCH__"));
        let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
        found.extend(words.filter_map(|word| word.parse::<u32>().ok()));
    }
    found
}

#[test]
fn kernels_do_not_distinguish_architectures_that_share_ptx() {
    let compared = compared_archs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels"));
    assert!(compared.contains(&900) && compared.contains(&1200), "{compared:?}");
    for shared in SHARED_PTX {
        let between = 10 * shared.from..=10 * shared.of;
        assert!(compared.iter().all(|number| !between.contains(number)), "{compared:?}");
    }
}
