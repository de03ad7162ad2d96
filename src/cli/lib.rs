//! The command line on top of Capstan's client. Each command has a module; they share `args`,
//! `exit`, `input`, `output`, `pending_file`, `plain_text`, `progress` and `random`.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]
// Printing must not panic: use `exit::print_error` and `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bases;
mod bench;
#[cfg(feature = "server")]
mod demo;
mod doctor;
mod embedded;
mod exit;
mod gf2;
mod groth16;
mod info;
mod input;
#[doc(hidden)]
pub mod integers;
mod msm;
mod ntt;
mod output;
mod pending_file;
mod plain_text;
mod poly;
mod progress;
mod random;
#[doc(hidden)]
pub mod run;
mod token;

use std::{process::ExitCode, time::Duration};

use capstan_client as client;
use capstan_engine::engine_error as error;
use capstan_identity as identity;
use capstan_math::{builder, curve, runner};
use capstan_proofs::formats;
#[cfg(feature = "server")]
use capstan_server::{config, grpc as server};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    args::GlobalArgs,
    exit::{CliFailure, Exit, Result, fail},
    output::{OutputTarget, Ui},
};

/// Compute MSMs and NTTs over BLS12-381 on a capstand server.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an end-to-end example on a server in this process
    #[cfg(feature = "server")]
    Demo(demo::DemoArgs),
    /// Show the server's engine, devices, limits and load
    Info,
    /// Find out what is wrong with this host and the server, and how to fix it
    Doctor(doctor::DoctorArgs),
    /// Manage points and matrices on the server
    #[command(subcommand)]
    Bases(bases::BasesCommand),
    /// Compute multi-scalar multiplications: sums of scalars times bases
    Msm(msm::MsmArgs),
    /// Compute number-theoretic transforms of rows of field elements
    Ntt(ntt::NttArgs),
    /// Compute with polynomials over any field
    #[command(subcommand)]
    Poly(poly::PolyCommand),
    /// Run a program: several steps in one call, whose values stay on the server
    Run(run::RunArgs),
    /// Make Groth16 keys and proofs of circom's circuits, and verify proofs
    #[command(subcommand)]
    Groth16(groth16::Groth16Command),
    /// Eliminate matrices of bits over GF(2), in this process or on the server
    #[command(subcommand)]
    Gf2(gf2::Gf2Command),
    /// Multiply integers of any length, in this process or on the server
    #[command(subcommand)]
    Int(integers::IntCommand),
    /// Measure the latency and throughput of a running server
    Bench(bench::BenchArgs),
    /// Shut the server down: it refuses new work and finishes accepted jobs
    Drain {
        /// Time limit for accepted jobs; 0s uses the server's configuration
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
              default_value = "0s")]
        grace: Duration,
    },
    /// Make, list and revoke the tokens of a server
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
}

/// Time for a command to clean up after a signal.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);

/// Runs the command given by the process's arguments.
pub fn main() -> ExitCode {
    let as_json = args::asks_for_json();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(|error| CliFailure::new(Exit::Failed, format!("cannot start: {error}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(until_interrupted(as_json));
            // Remaining work was cancelled and must not delay the exit.
            runtime.shutdown_background();
            outcome
        });
    let exit = match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => {
            failure.print(as_json);
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Reads the arguments. Prints what `--help` and `--version` ask for.
fn parse(as_json: bool) -> Result<Cli> {
    Cli::try_parse().map_err(|error| {
        let is_usage = error.use_stderr();
        if is_usage && as_json {
            return CliFailure::usage(&error.to_string());
        }
        // Printed by clap, in color. If that fails, the text is lost.
        let _lost = error.print();
        CliFailure::new(if is_usage { Exit::Usage } else { Exit::Done }, "")
    })
}

/// Ctrl-C and SIGTERM drop the command's future, which cancels its jobs on the server and removes
/// unfinished files.
async fn until_interrupted(as_json: bool) -> Result<()> {
    let failed = |error| CliFailure::new(Exit::Failed, format!("cannot handle signals: {error}"));
    // Handled, this signal ends no process: a write beyond the limit on file sizes fails instead.
    let _too_large = signal(SignalKind::from_raw(libc::SIGXFSZ)).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::spawn(exit_if_blocked(
        signal(SignalKind::interrupt()).map_err(failed)?,
        signal(SignalKind::terminate()).map_err(failed)?,
    ));
    let cli = parse(as_json)?;
    tokio::select! {
        outcome = run_command(Ui::new(&cli.global), &cli) => outcome,
        _ = interrupt.recv() => fail(Exit::Interrupted, "interrupted"),
        _ = terminate.recv() => fail(Exit::Terminated, "terminated"),
    }
}

/// Ends the process some time after a signal, or at the next one, if the command has not ended: it
/// may wait for standard input, for example.
async fn exit_if_blocked(mut interrupt: Signal, mut terminate: Signal) {
    let exit = tokio::select! {
        _ = interrupt.recv() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = tokio::time::sleep(SIGNAL_GRACE) => {}
    }
    std::process::exit(exit as i32);
}

async fn run_command(ui: Ui, cli: &Cli) -> Result<()> {
    let connect = async || Ok::<_, CliFailure>(cli.global.client_builder()?.connect().await?);
    match &cli.command {
        #[cfg(feature = "server")]
        Command::Demo(args) => demo::run(ui, &cli.global, args).await,
        Command::Info => info::run(ui, &connect().await?).await,
        Command::Doctor(args) => doctor::run(ui, &cli.global, args).await,
        Command::Bases(command) => bases::run(ui, &connect().await?, command).await,
        Command::Msm(args) => msm::run(ui, &connect().await?, args).await,
        Command::Ntt(args) => ntt::run(ui, &connect().await?, args).await,
        Command::Poly(command) => poly::run(ui, &connect().await?, command).await,
        Command::Run(args) => run::run(ui, &connect().await?, args).await,
        Command::Groth16(command) => groth16::run(ui, &cli.global, command).await,
        Command::Gf2(command) => gf2::run(ui, &cli.global, command).await,
        Command::Int(command) => integers::run(ui, &cli.global, command).await,
        Command::Bench(args) => bench::run(ui, &connect().await?, args).await,
        Command::Drain { grace } => {
            let jobs = connect().await?.drain(*grace).await?;
            if ui.json {
                return ui.print_json(&json!({ "jobs": jobs }));
            }
            ui.print(&format!("draining: {jobs} jobs left\n"))
        }
        Command::Token(command) => token::run(ui, command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "capstan", &mut script);
            OutputTarget::Stdout.write(&script)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
