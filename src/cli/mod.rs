//! The command line on top of the client. `args` defines the arguments, `exit` the exit codes; each
//! command has a module; they share `random`, `input`, `output` and `progress`.

mod args;
mod bases;
mod bench;
#[cfg(feature = "server")]
mod demo;
mod exit;
mod info;
mod input;
mod msm;
mod ntt;
mod output;
mod progress;
mod random;

use std::{fs, process::ExitCode};

use clap::{CommandFactory, Parser};
use serde_json::json;

use self::{
    args::{Cli, Command, GlobalArgs},
    exit::{CliFailure, Exit, Result},
    output::{OutputTarget, Ui},
};
use crate::client::{Client, ClientBuilder};

/// Runs the command given by the process's arguments.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ui = Ui::new(&cli.global);
    let outcome = tokio::runtime::Runtime::new()
        .map_err(|error| CliFailure::new(Exit::Failed, format!("cannot start: {error}")))
        .and_then(|runtime| {
            let outcome = runtime.block_on(until_interrupted(ui, &cli));
            // Remaining work was cancelled and must not delay the exit.
            runtime.shutdown_background();
            outcome
        });
    let exit = match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => {
            failure.print(ui.json);
            failure.exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Ctrl-C drops the command's future, which cancels its jobs on the server.
async fn until_interrupted(ui: Ui, cli: &Cli) -> Result<()> {
    tokio::select! {
        outcome = run(ui, cli) => outcome,
        interrupt = tokio::signal::ctrl_c() => {
            let message = match interrupt {
                Ok(()) => "interrupted".to_owned(),
                Err(error) => format!("cannot handle Ctrl-C: {error}"),
            };
            Err(CliFailure::new(Exit::Interrupted, message))
        }
    }
}

async fn run(ui: Ui, cli: &Cli) -> Result<()> {
    let connect = || connect(&cli.global);
    match &cli.command {
        #[cfg(feature = "server")]
        Command::Demo(args) => demo::run(ui, &cli.global, args).await,
        Command::Info => info::run(ui, &connect().await?).await,
        Command::Bases(command) => bases::run(ui, &connect().await?, command).await,
        Command::Msm(args) => msm::run(ui, &connect().await?, args).await,
        Command::Ntt(args) => ntt::run(ui, &connect().await?, args).await,
        Command::Bench(args) => bench::run(ui, &connect().await?, args).await,
        Command::Drain { grace } => {
            let jobs = connect().await?.drain(*grace).await?;
            if ui.json {
                return ui.print_json(&json!({ "jobs": jobs }));
            }
            ui.print(&format!("draining: {jobs} jobs left\n"))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "capstan", &mut script);
            OutputTarget::Stdout.write(&script)
        }
    }
}

async fn connect(global: &GlobalArgs) -> Result<Client> {
    Ok(builder(global)?.connect().await?)
}

fn builder(global: &GlobalArgs) -> Result<ClientBuilder> {
    let mut builder = Client::builder(&global.server).connections(global.connections.into());
    if let Some(deadline) = global.deadline {
        builder = builder.deadline(deadline);
    }
    if let Some(path) = &global.ca_certificate {
        let pem = fs::read(path).map_err(|error| CliFailure::input(path.display(), &error))?;
        builder = builder.ca_certificate(pem);
    }
    Ok(builder)
}
