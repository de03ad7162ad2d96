//! Faults of drivers that seeds choose, and which answers of a server they explain.
//!
//! `CAPSTAN_WORKER_FAULT_SEEDS` sets the number of seeds, `CAPSTAN_WORKER_FAULT_FIRST` the first.

use std::{env, ops::Range};

use capstan::client::ClientError;
use rand::{Rng as _, rngs::StdRng};

/// Errors that end the worker: NVLink, illegal address, launch timeout, ECC, misaligned address,
/// failed launch, unknown error.
const FATAL: [u32; 7] = [220, 700, 702, 214, 716, 719, 999];

/// Errors that fail one job: lack of memory, of launch resources; invalid value, symbol not found.
const OF_ONE_JOB: [u32; 4] = [2, 701, 1, 500];

/// Faults that no worker reaches, so that it reports its calls when they are replaced.
pub const COUNTED: [&str; 3] =
    ["any@0:1000000000:700", "any@1:1000000000:700", "cuEventQuery:1000000000:700"];

/// The seeds to run: `default` of them, unless the environment sets their number.
pub fn seeds(default: u64) -> Range<u64> {
    let first = number("CAPSTAN_WORKER_FAULT_FIRST", 0);
    first..first + number("CAPSTAN_WORKER_FAULT_SEEDS", default)
}

fn number(name: &str, default: u64) -> u64 {
    let text = env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// The driver calls that a worker makes during jobs.
#[derive(Debug, Clone, Copy)]
pub struct JobCalls {
    /// Those of each device that do not depend on timing.
    pub calls: [u64; 2],
    /// Queries whether the device is done.
    pub queries: u64,
}

impl JobCalls {
    /// `dropped_after` returns the calls that workers have reported for one of [`COUNTED`].
    pub fn counted(dropped_after: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let [of_first, of_second, queries] = COUNTED.map(dropped_after);
        // One worker may have run all jobs.
        let calls = [of_first.or(of_second)?, of_second.or(of_first)?];
        Some(Self { calls, queries: queries? })
    }
}

/// A fault that a seed has chosen.
pub struct SeededFault {
    /// For the emulated driver.
    pub text: String,
    /// Whether it ends the worker.
    pub is_fatal: bool,
    /// The reasons for which calls may be refused.
    refusals: &'static [&'static str],
}

impl SeededFault {
    /// No fault, which explains no refusal.
    pub fn none() -> Self {
        Self { text: String::new(), is_fatal: false, refusals: &[] }
    }

    /// A fault of any call that a worker makes during jobs.
    pub fn of_jobs(rng: &mut StdRng, counted: JobCalls) -> Self {
        let [of_first, of_second] = counted.calls;
        let (device, calls) = [("@0", of_first), ("@1", of_second), ("", of_first.min(of_second))]
            [rng.random_range(0..3)];
        // Of all calls, or of those that wait for the device.
        let (call, calls) = match rng.random_ratio(1, 8) {
            true => ("cuEventQuery", counted.queries),
            false => ("any", calls),
        };
        let (nth, code) = (any_call(rng, calls), any_code(rng));
        let refusals: &[_] = match refusals_of_one_job(code) {
            // Only one worker is lost.
            [] if !device.is_empty() => &[],
            [] => &["LOST_TWICE"],
            refusals => refusals,
        };
        let text = format!("{call}{device}:{nth}:{code}");
        Self { text, is_fatal: FATAL.contains(&code), refusals }
    }

    /// A fault of any of the `calls` that a worker makes until it serves: those of `target`. It
    /// explains a refusal, too: a worker that needs fewer calls meets it in a job.
    pub fn of_start(rng: &mut StdRng, target: &str, calls: u64) -> Self {
        let (nth, code) = (any_call(rng, calls), any_code(rng));
        let text = format!("{target}:{nth}:{code}");
        Self { text, is_fatal: FATAL.contains(&code), refusals: refusals_of_one_job(code) }
    }

    /// The result, or `None` if the call was refused for a reason that the fault explains.
    pub fn check<T>(&self, name: &str, result: Result<T, ClientError>) -> Option<T> {
        match result {
            Ok(result) => Some(result),
            Err(ClientError::Refused(refusal))
                if self.refusals.contains(&refusal.reason_text.as_str()) =>
            {
                println!("{name}: {}", refusal.reason_text);
                None
            }
            Err(error) => panic!("{}: {name}: {error}", self.text),
        }
    }
}

/// The number of a call, which changes little if the number of calls does.
fn any_call(rng: &mut StdRng, calls: u64) -> u64 {
    1 + (rng.random::<f64>() * calls as f64) as u64
}

/// The reasons for which a call may be refused if one of its driver calls fails with this error.
fn refusals_of_one_job(code: u32) -> &'static [&'static str] {
    match code {
        2 | 701 => &["DEVICE_MEMORY"],
        1 | 500 => &["INTERNAL"],
        _ => &[],
    }
}

fn any_code(rng: &mut StdRng) -> u32 {
    let codes = if rng.random_ratio(2, 3) { &FATAL[..] } else { &OF_ONE_JOB };
    codes[rng.random_range(0..codes.len())]
}
