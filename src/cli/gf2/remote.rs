//! Eliminations on the server.

use clap::Args;
use serde_json::Value;

use crate::{
    args::GlobalArgs,
    client::{BitMatrix, Client, Execution, Gf2Result, RunOptions, Timing},
    exit::Result,
    output::{Ui, microseconds, time_text, with_timings},
    progress::TerminalProgress,
};

#[derive(Debug, Args)]
pub struct RemoteArgs {
    /// Eliminate on the server of --server instead of in this process
    #[arg(long)]
    remote: bool,
}

/// How long an elimination took, and what the server reports of it.
pub struct EliminationReport {
    pub time: std::time::Duration,
    pub on_server: Option<(Timing, Execution)>,
}

impl RemoteArgs {
    /// The client of the server; `None` if this process eliminates.
    pub async fn client(&self, global: &GlobalArgs) -> Result<Option<Client>> {
        match self.remote {
            true => Ok(Some(global.client_builder()?.connect().await?)),
            false => Ok(None),
        }
    }
}

impl EliminationReport {
    pub fn of(result: &Gf2Result) -> Self {
        let on_server = Some((result.timing, result.execution.clone()));
        Self { time: result.timing.total, on_server }
    }

    /// Adds the times to the JSON of a command.
    pub fn add_to(&self, mut report: Value) -> Value {
        report["time_us"] = microseconds(self.time);
        match &self.on_server {
            Some((timing, execution)) => with_timings(report, timing, execution),
            None => report,
        }
    }

    /// Prints the times on standard error.
    pub fn note(&self, ui: Ui, done: &str) {
        match &self.on_server {
            Some((timing, execution)) => ui.timings(done, timing, execution),
            None => ui.note(&format!("{done} in {}", time_text(self.time))),
        }
    }
}

/// Calls `run` with options that show the progress of a transfer of these matrices.
pub async fn with_progress(
    ui: Ui,
    matrices: &[&BitMatrix],
    run: impl AsyncFnOnce(RunOptions) -> crate::client::Result<Gf2Result>,
) -> Result<Gf2Result> {
    let bytes = matrices.iter().map(|matrix| 8 * matrix.words().len() as u64).sum();
    let bar = TerminalProgress::bytes(ui, "sending and receiving", bytes);
    let options = RunOptions { progress: bar.callback(), ..RunOptions::default() };
    Ok(run(options).await?)
}
