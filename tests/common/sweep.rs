//! Sweeps: tests of many cases that differ only in a seed, a size or the call that fails. A plain
//! `cargo test` checks each promise with a few cases. The tests of all cases have the attribute
//! `#[ignore = "sweep"]`, and `scripts/sweep` runs a share of their cases. Any test crate may
//! include this module.
#![allow(dead_code)] // no test crate uses everything

use std::env;

/// The number of shares that add up to all cases.
pub const SHARES: usize = 10;

/// The variable with the number of the share to run, below [`SHARES`], or `all`, the default.
pub const SETTING: &str = "CAPSTAN_SWEEP";

/// Returns this run's share of `all`. No two sweeps may have the same `name`.
pub fn cases<T>(name: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let share = env::var(SETTING).unwrap_or_else(|_| "all".to_owned());
    let chosen = cases_of(&share, name, all);
    println!("sweep {name}: {} cases of share {share}", chosen.len());
    chosen
}

/// Returns the part of `all` that belongs to `share`, a value of [`SETTING`].
pub fn cases_of<T>(share: &str, name: &str, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let share = share_number(share);
    let is_chosen = |index| share.is_none_or(|share| share_of(name, index) == share);
    let all = all.into_iter().enumerate();
    all.filter(|(index, _)| is_chosen(*index)).map(|(_, case)| case).collect()
}

/// Whether this run includes the sweep `name`, which has a single case.
pub fn is_chosen(name: &str) -> bool {
    !cases(name, [()]).is_empty()
}

/// The share that has case `index` of the sweep `name`. Sweeps begin at different shares, so that
/// those of few cases are spread evenly.
fn share_of(name: &str, index: usize) -> usize {
    let first: usize = name.bytes().map(usize::from).sum();
    (first + index) % SHARES
}

/// The number in a value of [`SETTING`]; `None` for all shares.
fn share_number(text: &str) -> Option<usize> {
    if text == "all" {
        return None;
    }
    let share = text.parse().ok().filter(|share| *share < SHARES);
    Some(share.unwrap_or_else(|| panic!("{SETTING} = {text:?}: `all`, or a number below {SHARES}")))
}
