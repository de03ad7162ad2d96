//! What the phases of a proof took, for people and for scripts.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::output::{microseconds, table, time_text};

/// The phases so far, in order.
pub struct ProofPhases {
    begun: Instant,
    pub phases: Vec<ProofPhase>,
}

pub struct ProofPhase {
    pub name: &'static str,
    pub time: Duration,
    /// The amount of work, for people; may be empty.
    pub work: String,
}

impl ProofPhases {
    pub fn begin() -> Self {
        Self { begun: Instant::now(), phases: Vec::new() }
    }

    /// Waits for a phase and measures it.
    pub async fn measure<T>(&mut self, name: &'static str, phase: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let outcome = phase.await;
        self.add(name, begun.elapsed());
        outcome
    }

    pub fn add(&mut self, name: &'static str, time: Duration) {
        self.phases.push(ProofPhase { name, time, work: String::new() });
    }

    /// Describes the phase that was added last.
    pub fn describe(&mut self, work: String) {
        if let Some(last) = self.phases.last_mut() {
            last.work = work;
        }
    }

    pub fn total(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn as_text(&self) -> String {
        let mut rows = table(["phase", "time", "work"]);
        for ProofPhase { name, time, work } in &self.phases {
            rows.add_row([*name, &time_text(*time), work]);
        }
        format!("{rows}\n")
    }

    pub fn as_json(&self) -> Value {
        let phase = |phase: &ProofPhase| {
            let time_us = microseconds(phase.time);
            json!({ "name": phase.name, "time_us": time_us, "work": phase.work })
        };
        self.phases.iter().map(phase).collect()
    }
}
