//! `capstan gf2`: elimination of matrices of bits.
//!
//! - `reduce`, `echelon`, `rank`: the commands.
//! - `files`: reads matrices.

mod echelon;
mod files;
mod rank;
mod reduce;

use clap::Subcommand;

use super::{exit::Result, output::Ui};

#[derive(Debug, Subcommand)]
pub enum Gf2Command {
    /// Reduce rows by pivot rows, and promote rows to pivots
    Reduce(reduce::ReduceArgs),
    /// Compute the reduced row echelon form of a matrix
    Echelon(echelon::EchelonArgs),
    /// Compute the rank of a matrix
    Rank(rank::RankArgs),
}

pub async fn run(ui: Ui, command: &Gf2Command) -> Result<()> {
    match command {
        Gf2Command::Reduce(args) => reduce::run(ui, args).await,
        Gf2Command::Echelon(args) => echelon::run(ui, args).await,
        Gf2Command::Rank(args) => rank::run(ui, args).await,
    }
}
