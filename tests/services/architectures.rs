//! Which GPU architectures a build compiles for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::archs::{
    ALL, COLD, OWN_PTX, SAME_PTX, SAME_PTX_COLD, of_host, of_module, parse, ptx_of, with_own_code,
};

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

#[test]
fn the_oldest_of_a_group_gives_the_ptx() {
    let of = |module, archs: &[u32]| -> Vec<u32> {
        archs.iter().map(|arch| ptx_of(module, *arch, archs)).collect()
    };
    assert_eq!(of("msm/reduce", &ALL), [80, 80, 80, 90, 100, 100]);
    assert_eq!(of("msm/reduce", &[86, 89, 120, 121]), [86, 86, 120, 121]);
    assert_eq!(of("check/points", &ALL), [80, 80, 80, 90, 90, 90]);
    assert_eq!(of("msm/sort", &ALL), ALL);
}

#[test]
fn machine_code_that_runs_on_a_newer_architecture_is_made_once() {
    let with_own = |archs: &[u32]| with_own_code(archs).collect::<Vec<_>>();
    assert_eq!(with_own(&ALL), [80, 86, 90, 100, 120]);
    assert_eq!(with_own(&[80, 89, 90]), [80, 89, 90]);
    assert_eq!(with_own(&[89]), [89]);
}

#[test]
fn kernels_of_tests_and_benchmarks_are_for_one_architecture() {
    assert_eq!(of_module("msm/reduce", &ALL), ALL);
    assert_eq!(of_module("test/curve", &ALL), [90]);
    assert_eq!(of_module("bench/field", &[80, 89]), [89]);
    assert!(of_module("bench/field", &[]).is_empty());
}

/// The sources of all kernels for GPUs, with their paths below `kernels`.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(kernels().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if kernels().join(&path).is_dir() {
            found.extend(sources(&path));
        } else {
            let text = fs::read_to_string(kernels().join(&path)).unwrap();
            found.push((path, text));
        }
    }
    found
}

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// The numbers with which a source compares `__CUDA_ARCH__`.
fn compared_archs(source: &str) -> Vec<u32> {
    let lines = source.lines().filter(|line| line.contains("__CUDA_ARCH__"));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The sources that distinguish architectures of one of the groups.
fn distinguishing<'a>(sources: &'a [(PathBuf, String)], groups: &[&[u32]]) -> Vec<&'a str> {
    // All comparisons are `>=` and `<`.
    let is_within = |group: &&[u32], compared: &[u32]| {
        let (oldest, newest) = (10 * group[0], 10 * group[group.len() - 1]);
        compared.iter().any(|number| (oldest + 1..=newest).contains(number))
    };
    let distinguishes = |text: &str| {
        let compared = compared_archs(text);
        groups.iter().any(|group| is_within(group, &compared))
    };
    let found = sources.iter().filter(|(_, text)| distinguishes(text));
    found.map(|(path, _)| path.to_str().unwrap()).collect()
}

#[test]
fn only_modules_with_ptx_of_their_own_distinguish_architectures_of_a_group() {
    let sources = sources(Path::new(""));
    let compared: Vec<_> = sources.iter().flat_map(|(_, text)| compared_archs(text)).collect();
    assert!(compared.contains(&900) && compared.contains(&1200), "{compared:?}");
    assert_eq!(distinguishing(&sources, &SAME_PTX), ["multiprocessor.cuh"]);
    let including = sources.iter().filter(|(_, text)| text.contains("multiprocessor.cuh\""));
    let including = including.map(|(path, _)| path.with_extension(""));
    assert_eq!(including.collect::<Vec<_>>(), OWN_PTX.map(PathBuf::from));
}

/// `carry.cuh` distinguishes architectures, too, in a function that only `gf2/update` calls.
#[test]
fn cold_modules_do_not_distinguish_architectures_of_a_group() {
    let sources = sources(Path::new(""));
    let mut found = distinguishing(&sources, &SAME_PTX_COLD);
    found.sort_unstable();
    assert_eq!(found, ["carry.cuh", "multiprocessor.cuh"]);
    let modules = sources.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "cu"));
    let names: Vec<_> = modules.map(|(path, _)| path.with_extension("")).collect();
    for module in COLD {
        assert!(names.contains(&PathBuf::from(module)), "{module}");
    }
    // Headers are not modules: a call from one would be in this list, too.
    let calling = sources.iter().filter(|(path, text)| {
        !path.starts_with("host") && text.contains("binary_mma(") && path != Path::new("carry.cuh")
    });
    let calling: Vec<_> = calling.map(|(path, _)| path.with_extension("")).collect();
    assert_eq!(calling, [PathBuf::from("gf2/update")]);
    assert!(!COLD.contains(&"gf2/update"));
}
