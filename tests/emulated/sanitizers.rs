//! Some of the tests on a driver built with ASan and UBSan, and errors that only these find.

use std::process::Command;

use crate::{
    arguments,
    rig::{EmulatedGpu, kernels},
    sanitized, sweep,
};

/// Names the mistake that [`a_child_makes_the_mistake_that_its_environment_names`] makes.
const MISTAKE: &str = "EMULATED_TEST_MISTAKE";
const CHILD: &str = "sanitizers::a_child_makes_the_mistake_that_its_environment_names";

/// Runs one test of this binary with these variables. Returns whether it passed, and its output.
fn run(test: &str, variables: &[(&str, String)], mistake: Option<&str>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.envs(mistake.map(|mistake| (MISTAKE, mistake)));
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
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

/// Stores out of bounds and misaligned vectors are found with file and line, and correct programs
/// pass. This is one case, because building the driver takes long.
#[test]
#[ignore = "sweep"]
fn mistakes_of_kernels_are_found_by_the_sanitizers_only() {
    if !sweep::is_chosen("emulated, sanitizers") {
        return;
    }
    let Some(variables) = sanitized::variables("probes-checked", &kernels()) else { return };
    for (mistake, file, error) in [
        ("global", "memory.cu:", "heap-buffer-overflow"),
        ("shared", "threads.cu:", "heap-buffer-overflow"),
        ("wide", "memory.cu:", "misaligned address"),
    ] {
        let (passed, text) = run(CHILD, &variables, Some(mistake));
        assert!(!passed && text.contains(error) && text.contains(file), "{mistake}: {text}");
    }
    for test in [
        "launches::warps_shuffle_and_vote",
        "launches::barriers_order_threads_under_every_seed",
        "launches::divergence_fails_the_launch_and_sticks",
        "streams::many_host_threads_share_a_device",
    ] {
        let (passed, text) = run(test, &variables, None);
        assert!(passed && text.contains("1 passed"), "{test}: {text}");
    }
}
