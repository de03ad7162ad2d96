//! `capstan poly`: polynomials by their coefficients.

mod mul;

use clap::Subcommand;

use super::{exit::Result, output::Ui};
use crate::client::Client;

#[derive(Debug, Subcommand)]
pub enum PolyCommand {
    /// Multiply polynomials: whole, or modulo X^N - 1 or X^N + 1
    Mul(mul::PolyMulArgs),
}

pub async fn run(ui: Ui, client: &Client, command: &PolyCommand) -> Result<()> {
    match command {
        PolyCommand::Mul(args) => mul::run(ui, client, args).await,
    }
}
