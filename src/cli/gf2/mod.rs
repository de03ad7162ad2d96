//! `capstan gf2`: elimination of matrices of bits.
//!
//! - `reduce`, `echelon`, `rank`: the commands.
//! - `files`: reads matrices. `remote`: eliminates on the server.

mod echelon;
pub mod files;
mod rank;
mod reduce;
mod remote;

use clap::Subcommand;

use super::{args::GlobalArgs, exit::Result, output::Ui};

#[derive(Debug, Subcommand)]
pub enum Gf2Command {
    /// Reduce rows by pivot rows, and promote rows to pivots
    Reduce(reduce::ReduceArgs),
    /// Compute the reduced row echelon form of a matrix
    Echelon(echelon::EchelonArgs),
    /// Compute the rank of a matrix
    Rank(rank::RankArgs),
}

pub async fn run(ui: Ui, global: &GlobalArgs, command: &Gf2Command) -> Result<()> {
    match command {
        Gf2Command::Reduce(args) => reduce::run(ui, global, args).await,
        Gf2Command::Echelon(args) => echelon::run(ui, global, args).await,
        Gf2Command::Rank(args) => rank::run(ui, args).await,
    }
}
