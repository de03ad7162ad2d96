//! The phases of the demo, and its report for people and for scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::check::Passed;
use crate::{
    cli::{
        exit::Result,
        output::{Ui, microseconds, table, time_text},
        progress::Bar,
    },
    client::{G1Affine, GetInfoResponse, PointEncoding},
    curve::points::encode,
};

/// Times phases and shows the current one on a terminal.
pub struct Phases {
    bar: Bar,
    begun: Instant,
    done: Vec<Phase>,
}

/// A phase that is not finished.
pub struct Current {
    name: &'static str,
    work: String,
    begun: Instant,
}

/// A finished phase.
struct Phase {
    name: &'static str,
    work: String,
    time: Duration,
    /// The engine's part of `time`, if the server reports it.
    compute: Option<Duration>,
}

impl Phases {
    pub fn new(ui: Ui) -> Self {
        Self { bar: Bar::spinner(ui, ""), begun: Instant::now(), done: Vec::new() }
    }

    /// Begins a phase; `work` is its amount of work, for people.
    pub fn begin(&self, name: &'static str, work: String) -> Current {
        self.bar.say(name);
        Current { name, work, begun: Instant::now() }
    }

    pub fn end(&mut self, phase: Current, compute: Option<Duration>) {
        let Current { name, work, begun } = phase;
        self.done.push(Phase { name, work, time: begun.elapsed(), compute });
    }
}

/// The outcome of a demo in which every check passed.
pub struct Report {
    /// The server's version, engine and devices.
    pub info: GetInfoResponse,
    /// Finished phases.
    pub phases: Phases,
    /// The comparisons.
    pub checks: Vec<Passed>,
    /// One for each blob.
    pub commitments: Vec<G1Affine>,
}

impl Report {
    /// Prints the report on standard output.
    pub fn print(self, ui: Ui) -> Result<()> {
        let Self { info, phases: Phases { bar, begun, done }, checks, commitments } = self;
        let total = begun.elapsed();
        drop(bar);
        let commitments: Vec<_> =
            encode(PointEncoding::Compressed, &commitments).chunks(48).map(hex::encode).collect();
        if ui.json {
            return ui.print_json(&as_json(&info, &done, &checks, &commitments, total));
        }
        ui.print(&as_text(&info, &done, &checks, &commitments, total))
    }
}

fn as_json(
    info: &GetInfoResponse,
    phases: &[Phase],
    checks: &[Passed],
    commitments: &[String],
    total: Duration,
) -> Value {
    let phase = |phase: &Phase| {
        json!({
            "name": phase.name, "work": phase.work, "time_us": microseconds(phase.time),
            "compute_us": phase.compute.map(microseconds),
        })
    };
    let check = |check: &Passed| {
        let Passed { results, expected, count } = check;
        json!({ "results": results, "expected": expected, "count": count })
    };
    json!({
        "version": info.version,
        "engine": info.engine,
        "engine_reason": info.engine_reason,
        "devices": info.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
        "phases": phases.iter().map(phase).collect::<Vec<_>>(),
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
        "commitments": commitments,
        "total_us": microseconds(total),
    })
}

fn as_text(
    info: &GetInfoResponse,
    phases: &[Phase],
    checks: &[Passed],
    commitments: &[String],
    total: Duration,
) -> String {
    let devices: Vec<_> = info.devices.iter().map(|device| device.name.as_str()).collect();
    let mut text = format!(
        "capstand {} in this process\nengine {} ({}): {}\n\n",
        info.version,
        info.engine,
        devices.join(", "),
        info.engine_reason
    );
    let mut rows = table(["phase", "work", "time", "compute"]);
    for Phase { name, work, time, compute } in phases {
        let compute = compute.map_or(String::new(), time_text);
        rows.add_row([*name, work, &time_text(*time), &compute]);
    }
    text += &format!("{rows}\n\n");
    for Passed { results, expected, count } in checks {
        text += &format!("ok: {results} equal {expected} ({count} compared)\n");
    }
    if let Some(first) = commitments.first() {
        text += &format!("\nThe commitment to the first blob is 0x{first}.\n");
    }
    text + &format!("All checks passed; the demo took {}.\n", time_text(total))
}
