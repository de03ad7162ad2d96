//! `capstan groth16`: keys and proofs of circuits in circom's files.
//!
//! - `setup`, `register`, `prove`, `verify`: the commands.
//! - `files`: reads and writes their files.
//! - `phases`: what took how long. `plot`: a chart of it.

mod files;
mod phases;
mod plot;
mod prove;
mod register;
mod setup;
mod verify;

use clap::Subcommand;

use super::{args::GlobalArgs, exit::Result, output::Ui};

#[derive(Debug, Subcommand)]
pub enum Groth16Command {
    /// Make a proving key and a verifying key of a circuit
    Setup(setup::SetupArgs),
    /// Send a proving key to the server, for clients that prove without its file
    Register(register::RegisterArgs),
    /// Prove that a witness satisfies a circuit
    Prove(prove::ProveArgs),
    /// Verify a proof, without a server
    Verify(verify::VerifyArgs),
}

pub async fn run(ui: Ui, global: &GlobalArgs, command: &Groth16Command) -> Result<()> {
    match command {
        Groth16Command::Setup(args) => setup::run(ui, args).await,
        Groth16Command::Register(args) => register::run(ui, global, args).await,
        Groth16Command::Prove(args) => prove::run(ui, global, args).await,
        Groth16Command::Verify(args) => verify::run(ui, args).await,
    }
}
