//! Model checks: the code of the received ranges, the uploads, the scheduler and the runs of a
//! worker, with threads whose order a checker chooses. Each model runs many times, under orders
//! that are random and under orders with few switches at random places.
//!
//! `CAPSTAN_MODEL_ITERATIONS` sets the runs of each kind, `CAPSTAN_MODEL_SEED` their seed.
//! A failure prints its schedule, which `shuttle::replay` repeats.

mod received;
mod runs;
mod scheduler;
mod uploads;
mod workers;

use std::env;

use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};

/// Bugs of two threads need two switches at the right places.
const SWITCHES: usize = 3;

fn number(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// Runs a model under many orders of its threads. All of its threads must end.
fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_orders(number("CAPSTAN_MODEL_ITERATIONS", 1000) as usize, model);
}

/// Like [`check`], for models that start processes.
fn check_fewer(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_orders(number("CAPSTAN_MODEL_ITERATIONS", 1000) as usize / 20, model);
}

fn check_orders(iterations: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    let seed = number("CAPSTAN_MODEL_SEED", 1);
    let mut config = Config::default();
    // Steps of a job are deep calls of this crate.
    config.stack_size = 256 << 10;
    config.silence_warnings = true;
    println!("seed {seed}, {iterations} orders of each kind");
    let random = RandomScheduler::new_from_seed(seed, iterations);
    Runner::new(random, config.clone()).run(model.clone());
    let few_switches = PctScheduler::new_from_seed(seed, SWITCHES, iterations);
    Runner::new(few_switches, config).run(model);
}
