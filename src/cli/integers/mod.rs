//! `capstan int`: products of integers.
//!
//! - `mul`: the command. `digits`: reads and writes files of digits.
//! - `local`: multiplies in this process.

pub mod digits;
mod local;
mod mul;

use clap::Subcommand;

use super::{args::GlobalArgs, exit::Result, output::Ui};

#[derive(Debug, Subcommand)]
pub enum IntCommand {
    /// Multiply integers of any length
    Mul(mul::IntMulArgs),
}

pub async fn run(ui: Ui, global: &GlobalArgs, command: &IntCommand) -> Result<()> {
    match command {
        IntCommand::Mul(args) => mul::run(ui, global, args).await,
    }
}
