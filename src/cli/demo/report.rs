//! The phases of the demo, and its report for people and for scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::check::PassedCheck;
use crate::{
    client::{G1Affine, GetInfoResponse, PointEncoding},
    curve::points::encode,
    exit::Result,
    output::{Ui, microseconds, table, time_text},
    progress::TerminalProgress,
};

/// Times phases and shows the current one on a terminal.
pub struct PhaseTimer {
    bar: TerminalProgress,
    begun: Instant,
    phases: Vec<DemoPhase>,
}

struct DemoPhase {
    name: &'static str,
    /// The amount of work, for people.
    work: String,
    begun: Instant,
    time: Duration,
    /// The engine's part of `time`, if the server reports it.
    compute: Option<Duration>,
}

impl PhaseTimer {
    pub fn new(ui: Ui) -> Self {
        Self { bar: TerminalProgress::spinner(ui, ""), begun: Instant::now(), phases: Vec::new() }
    }

    /// Begins a phase; `work` is its amount of work, for people.
    pub fn begin(&mut self, name: &'static str, work: String) {
        self.bar.set_message(name);
        let begun = Instant::now();
        self.phases.push(DemoPhase { name, work, begun, time: Duration::ZERO, compute: None });
    }

    /// Ends the phase that was begun last. `compute` is the engine's part of it.
    pub fn end(&mut self, compute: Option<Duration>) {
        let phase = self.phases.last_mut().expect("a phase was begun");
        phase.time = phase.begun.elapsed();
        phase.compute = compute;
    }
}

/// The outcome of a demo in which every check passed.
pub struct DemoReport {
    /// The server's version, engine and devices.
    info: GetInfoResponse,
    phases: Vec<DemoPhase>,
    total: Duration,
    checks: Vec<PassedCheck>,
    /// Commitments to the blobs, compressed, in hex.
    commitments: Vec<String>,
}

impl DemoReport {
    pub fn new(
        info: GetInfoResponse,
        PhaseTimer { begun, phases, .. }: PhaseTimer,
        checks: Vec<PassedCheck>,
        commitments: &[G1Affine],
    ) -> Self {
        let bytes = encode(PointEncoding::Compressed, commitments);
        let commitments = bytes.chunks(48).map(hex::encode).collect();
        Self { info, phases, total: begun.elapsed(), checks, commitments }
    }

    pub fn print(&self, ui: Ui) -> Result<()> {
        if ui.json { ui.print_json(&self.as_json()) } else { ui.print(&self.as_text()) }
    }

    fn as_json(&self) -> Value {
        let phase = |phase: &DemoPhase| {
            json!({
                "name": phase.name, "work": phase.work, "time_us": microseconds(phase.time),
                "compute_us": phase.compute.map(microseconds),
            })
        };
        let check = |check: &PassedCheck| {
            let PassedCheck { results, expected, count } = check;
            json!({ "results": results, "expected": expected, "count": count })
        };
        let Self { info, phases, total, checks, commitments } = self;
        json!({
            "version": info.version,
            "engine": info.engine,
            "engine_reason": info.engine_reason,
            "devices": info.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
            "phases": phases.iter().map(phase).collect::<Vec<_>>(),
            "checks": checks.iter().map(check).collect::<Vec<_>>(),
            "commitments": commitments,
            "total_us": microseconds(*total),
        })
    }

    fn as_text(&self) -> String {
        let Self { info, phases, total, checks, commitments } = self;
        let devices: Vec<_> = info.devices.iter().map(|device| device.name.as_str()).collect();
        let mut text = format!(
            "capstand {} in this process\nengine {} ({}): {}\n\n",
            info.version,
            info.engine,
            devices.join(", "),
            info.engine_reason
        );
        let mut rows = table(["phase", "work", "time", "compute"]);
        for DemoPhase { name, work, time, compute, .. } in phases {
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
        text + &format!("All checks passed; the demo took {}.\n", time_text(*total))
    }
}
