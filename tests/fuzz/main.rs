//! Mutated inputs for every decoder that reads bytes from outside. Each target states what holds
//! for any input; the driver makes inputs from valid ones.
//!
//! A run is bounded and repeatable. `CAPSTAN_FUZZ_SEED` sets its seed, which is printed on failure,
//! `CAPSTAN_FUZZ_CASES` the inputs per target, and `CAPSTAN_FUZZ_SECONDS` a time instead.
//! `scripts/fuzz` runs the same targets guided by coverage.
#![cfg(all(feature = "cli", feature = "server"))]

mod coverage;
mod driver;
mod heap;
#[path = "../identity/issuer.rs"]
#[allow(dead_code)]
mod issuer;
mod mutate;
#[path = "../rig/mod.rs"]
mod rig;
mod targets;
