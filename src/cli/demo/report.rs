//! The phases of the demo, and its report for people and for scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::check::PassedCheck;
use crate::{
    cli::{
        exit::Result,
        output::{Ui, microseconds, table, time_text},
        progress::TerminalProgress,
    },
    client::{G1Affine, GetInfoResponse, PointEncoding},
    curve::points::encode,
};

/// Times phases and shows the current one on a terminal.
pub struct PhaseTimer {
    bar: TerminalProgress,
    begun: Instant,
    done: Vec<FinishedPhase>,
}

/// A phase that is not finished.
pub struct RunningPhase {
    name: &'static str,
    work: String,
    begun: Instant,
}

/// A finished phase.
struct FinishedPhase {
    name: &'static str,
    work: String,
    time: Duration,
    /// The engine's part of `time`, if the server reports it.
    compute: Option<Duration>,
}

impl PhaseTimer {
    pub fn new(ui: Ui) -> Self {
        Self { bar: TerminalProgress::spinner(ui, ""), begun: Instant::now(), done: Vec::new() }
    }

    /// Begins a phase; `work` is its amount of work, for people.
    pub fn begin(&self, name: &'static str, work: String) -> RunningPhase {
        self.bar.set_message(name);
        RunningPhase { name, work, begun: Instant::now() }
    }

    pub fn end(&mut self, phase: RunningPhase, compute: Option<Duration>) {
        let RunningPhase { name, work, begun } = phase;
        self.done.push(FinishedPhase { name, work, time: begun.elapsed(), compute });
    }
}

/// The outcome of a demo in which every check passed.
pub struct DemoReport {
    /// The server's version, engine and devices.
    pub info: GetInfoResponse,
    /// Finished phases.
    pub phases: PhaseTimer,
    /// The comparisons.
    pub checks: Vec<PassedCheck>,
    /// One for each blob.
    pub commitments: Vec<G1Affine>,
}

impl DemoReport {
    /// Prints the report on standard output.
    pub fn print(self, ui: Ui) -> Result<()> {
        let Self { info, phases: PhaseTimer { bar, begun, done }, checks, commitments } = self;
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
    phases: &[FinishedPhase],
    checks: &[PassedCheck],
    commitments: &[String],
    total: Duration,
) -> Value {
    let phase = |phase: &FinishedPhase| {
        json!({
            "name": phase.name, "work": phase.work, "time_us": microseconds(phase.time),
            "compute_us": phase.compute.map(microseconds),
        })
    };
    let check = |check: &PassedCheck| {
        let PassedCheck { results, expected, count } = check;
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
    phases: &[FinishedPhase],
    checks: &[PassedCheck],
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
    for FinishedPhase { name, work, time, compute } in phases {
        let compute = compute.map_or(String::new(), time_text);
        rows.add_row([*name, work, &time_text(*time), &compute]);
    }
    text += &format!("{rows}\n\n");
    for PassedCheck { results, expected, count } in checks {
        text += &format!("ok: {results} equal {expected} ({count} compared)\n");
    }
    if let Some(first) = commitments.first() {
        text += &format!("\nThe commitment to the first blob is 0x{first}.\n");
    }
    text + &format!("All checks passed; the demo took {}.\n", time_text(total))
}
