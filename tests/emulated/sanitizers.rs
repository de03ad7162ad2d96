//! Some of the tests on a driver built with ASan and UBSan, and errors that only these find.

use std::{path::PathBuf, process::Command};

use crate::{
    arguments, emulated,
    rig::{EmulatedGpu, library},
};

/// `-O1` because optimising instrumented code further takes long.
const FLAGS: [&str; 3] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"];
/// Names the mistake that [`a_child_makes_the_mistake_that_its_environment_names`] makes.
const MISTAKE: &str = "EMULATED_TEST_MISTAKE";
const CHILD: &str = "sanitizers::a_child_makes_the_mistake_that_its_environment_names";

/// Path of a sanitizer's library; `None` if the compiler has none.
fn runtime(name: &str) -> Option<PathBuf> {
    let answer = Command::new("g++").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

/// Runs one test of this binary on the sanitized driver. Returns whether it passed and its output;
/// `None` if the compiler has no sanitizers.
fn checked(test: &str, mistake: Option<&str>) -> Option<(bool, String)> {
    let (Some(asan), Some(ubsan)) = (runtime("libasan.so"), runtime("libubsan.so")) else {
        eprintln!("skipped: g++ has no libasan and libubsan");
        return None;
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("LD_PRELOAD", format!("{} {}", asan.display(), ubsan.display()));
    // The test binary is not instrumented, so leaks cannot be counted.
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("UBSAN_OPTIONS", "print_stacktrace=1");
    command.env(emulated::SETTING, library(&FLAGS));
    if let Some(mistake) = mistake {
        command.env(MISTAKE, mistake);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Makes the mistake that the environment asks for, if any.
#[test]
fn a_child_makes_the_mistake_that_its_environment_names() {
    let Ok(mistake) = std::env::var(MISTAKE) else { return };
    let gpu = EmulatedGpu::new(1);
    let (stream, words) = (gpu.stream(), gpu.words(16));
    match mistake.as_str() {
        "global" => {
            let store = gpu.kernel("memory", "store");
            store.launch(&stream, (1, 1, 0), arguments![words.address, 16i64, 5u32]).unwrap();
        }
        "shared" => {
            let overrun = gpu.kernel("threads", "overrun");
            overrun.launch(&stream, (1, 32, 128), arguments![words.address, 32u32]).unwrap();
        }
        _ => {
            let wide = gpu.kernel("memory", "load_wide");
            wide.launch(&stream, (1, 1, 0), arguments![words.address, 1u32]).unwrap();
        }
    }
    stream.synchronize().unwrap();
}

#[test]
fn stores_out_of_bounds_are_found_with_file_and_line() {
    for (mistake, file) in [("global", "memory.cu:"), ("shared", "threads.cu:")] {
        let Some((passed, text)) = checked(CHILD, Some(mistake)) else { return };
        assert!(!passed && text.contains("heap-buffer-overflow"), "{text}");
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn misaligned_vectors_are_found_with_file_and_line() {
    let Some((passed, text)) = checked(CHILD, Some("wide")) else { return };
    assert!(!passed && text.contains("misaligned address"), "{text}");
    assert!(text.contains("memory.cu:"), "{text}");
}

#[test]
fn correct_programs_pass_under_the_sanitizers() {
    for test in [
        "threads::warps_shuffle_and_vote",
        "threads::barriers_order_threads_under_every_seed",
        "threads::divergence_fails_the_launch_and_sticks",
        "streams::many_host_threads_share_a_device",
    ] {
        let Some((passed, text)) = checked(test, None) else { return };
        assert!(passed, "{test}: {text}");
    }
}
