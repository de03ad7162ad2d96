//! The same tests on a driver built with ASan and UBSan, and what only these see.

use std::{path::PathBuf, process::Command};

use crate::{
    arguments, emulated,
    rig::{Gpu, library},
};

/// The last one because instrumented code takes long to optimise further.
const FLAGS: [&str; 3] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"];
/// Set for the process that makes the mistake.
const MISTAKE: &str = "EMULATED_TEST_MISTAKE";

/// Where the compiler has its sanitizers' libraries; `None` where it has none.
fn runtime(name: &str) -> Option<PathBuf> {
    let asked = Command::new("g++").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Runs one test of this binary on the checked library; `None` where the compiler has no ASan.
fn checked(test: &str, mistake: Option<&str>) -> Option<(bool, String)> {
    let (Some(asan), Some(ubsan)) = (runtime("libasan.so"), runtime("libubsan.so")) else {
        eprintln!("skipped: g++ has no libasan and libubsan");
        return None;
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("LD_PRELOAD", format!("{} {}", asan.display(), ubsan.display()));
    // The test binary itself is not built for leaks to be counted.
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("UBSAN_OPTIONS", "print_stacktrace=1");
    command.env(emulated::SETTING, library(&FLAGS));
    if let Some(mistake) = mistake {
        command.env(MISTAKE, mistake);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Not a mistake unless the environment asks for one.
#[test]
fn mistake() {
    let Ok(mistake) = std::env::var(MISTAKE) else { return };
    let gpu = Gpu::new(1);
    let (stream, words) = (gpu.stream(), gpu.words(16));
    match mistake.as_str() {
        "global" => {
            let store = gpu.kernel("memory", "store");
            store.launch(&stream, (1, 1, 0), arguments![words.at, 16i64, 5u32]).unwrap();
        }
        "shared" => {
            let overrun = gpu.kernel("threads", "overrun");
            overrun.launch(&stream, (1, 32, 128), arguments![words.at, 32u32]).unwrap();
        }
        _ => {
            let wide = gpu.kernel("memory", "load_wide");
            wide.launch(&stream, (1, 1, 0), arguments![words.at, 1u32]).unwrap();
        }
    }
    stream.synchronize().unwrap();
}

#[test]
fn stores_out_of_bounds_are_found_with_file_and_line() {
    for (mistake, file) in [("global", "memory.cu:"), ("shared", "threads.cu:")] {
        let Some((passed, said)) = checked("sanitizers::mistake", Some(mistake)) else { return };
        assert!(!passed && said.contains("heap-buffer-overflow"), "{said}");
        assert!(said.contains(file), "{said}");
    }
}

#[test]
fn misaligned_vectors_are_found_with_file_and_line() {
    let Some((passed, said)) = checked("sanitizers::mistake", Some("wide")) else { return };
    assert!(!passed && said.contains("misaligned address"), "{said}");
    assert!(said.contains("memory.cu:"), "{said}");
}

#[test]
fn fibers_are_known_to_the_sanitizer() {
    for test in [
        "threads::warps_shuffle_and_vote",
        "threads::barriers_order_threads_under_every_seed",
        "threads::divergence_is_a_failed_launch_that_sticks",
        "streams::many_host_threads_share_a_device",
    ] {
        let Some((passed, said)) = checked(test, None) else { return };
        assert!(passed, "{test}: {said}");
    }
}
