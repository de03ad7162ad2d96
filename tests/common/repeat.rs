//! A plain run of the tests uses one seed of the emulated driver, and a part of the cases that are
//! slow there. Sweeps repeat tests in new processes: under each seed, with its part of the cases,
//! and on other devices. Any test crate may include this module.
#![allow(dead_code)] // no test crate uses everything

use std::{env, process::Command};

use crate::emulated::{self, SEEDS};

/// The index of the seed, in processes that repeat tests.
const SETTING: &str = "CAPSTAN_TEST_SEED_INDEX";

/// The seed of a plain run, which permutes threads.
const PLAIN_SEED: u64 = SEEDS[1];

/// A seed of the emulated driver, and the part of slow cases that runs under it.
#[derive(Debug, Clone, Copy)]
pub struct SeededPart {
    pub seed: u64,
    /// Below the number of seeds.
    pub part: usize,
}

/// The seed and the part of this process.
pub fn seeded_part() -> SeededPart {
    match seed_index() {
        Some(index) => SeededPart { seed: SEEDS[index], part: index },
        None => SeededPart { seed: PLAIN_SEED, part: 0 },
    }
}

/// Whether tests run all their cases: they do if this process repeats them, and on a GPU.
pub fn has_all_cases() -> bool {
    seed_index().is_some() || emulated::driver().is_none()
}

/// Returns all of `cases`; in a plain run on the emulated driver, one in `every`, from number
/// `first` on.
pub fn some_of<T>(
    cases: impl IntoIterator<Item = T>,
    every: usize,
    first: usize,
) -> impl Iterator<Item = T> {
    let (skipped, step) = if has_all_cases() { (0, 1) } else { (first % every, every) };
    cases.into_iter().skip(skipped).step_by(step)
}

fn seed_index() -> Option<usize> {
    let text = env::var(SETTING).ok()?;
    let index = text.parse().ok().filter(|index| *index < SEEDS.len());
    Some(index.unwrap_or_else(|| panic!("{SETTING} = {text:?}")))
}

/// One test of this binary, or all, to be repeated under a seed in a new process.
#[derive(Debug, Clone)]
pub struct Repeat {
    /// Its full name; `None` for all tests.
    test: Option<String>,
    seed_index: usize,
    variables: Vec<(&'static str, String)>,
}

/// Returns each wanted test of this binary under each seed; empty on a GPU, where tests already run
/// all cases.
pub fn each_test(is_wanted: impl Fn(&str) -> bool) -> Vec<Repeat> {
    repeats(SEEDS.len(), is_wanted)
}

/// Like [`each_test`], but under the first seed only: for tests that use all seeds in turn.
pub fn each_test_once(is_wanted: impl Fn(&str) -> bool) -> Vec<Repeat> {
    repeats(1, is_wanted)
}

fn repeats(seeds: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<Repeat> {
    if emulated::driver().is_none() {
        return Vec::new();
    }
    let tests: Vec<_> = names().into_iter().filter(|name| is_wanted(name)).collect();
    assert!(!tests.is_empty(), "no test has such a name");
    let under = |test: &String, seed_index| {
        let (test, variables) = (Some(test.clone()), Vec::new());
        Repeat { test, seed_index, variables }
    };
    let under_each = |test| (0..seeds).map(move |seed_index| under(test, seed_index));
    tests.iter().flat_map(under_each).collect()
}

/// Returns `repeats` with variables that set the preset of the emulated device.
pub fn on(device: &'static str, mut repeats: Vec<Repeat>) -> Vec<Repeat> {
    for repeat in &mut repeats {
        repeat.variables = vec![("EMU_DEVICE", device.into()), ("EMU_MULTIPROCESSORS", "4".into())];
    }
    repeats
}

/// Returns one repeat of all tests of this binary for each seed, with these variables.
pub fn all_tests(variables: &[(&'static str, String)]) -> Vec<Repeat> {
    let variables = variables.to_vec();
    (0..SEEDS.len())
        .map(|seed_index| Repeat { test: None, seed_index, variables: variables.clone() })
        .collect()
}

impl Repeat {
    /// Runs the tests; panics with their output unless they ran and passed.
    pub fn run(&self) {
        let mut command = own_binary();
        command.env(SETTING, self.seed_index.to_string());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(test) = &self.test {
            command.args(["--exact", test]);
        }
        let output = command.output().expect("this binary can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        let has_run = !text.contains("ok. 0 passed");
        assert!(
            output.status.success() && has_run,
            "{self:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

fn own_binary() -> Command {
    Command::new(env::current_exe().expect("the system knows the path"))
}

/// The names of all tests of this binary except the sweeps.
fn names() -> Vec<String> {
    let output = own_binary().args(["--list", "--format", "terse"]).output();
    let text = output.expect("this binary can be started").stdout;
    let text = String::from_utf8(text).expect("names are UTF-8");
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !name.starts_with("sweeps::")).map(str::to_owned).collect()
}
