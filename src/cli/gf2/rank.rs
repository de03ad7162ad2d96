//! `capstan gf2 rank`.

use std::{path::PathBuf, time::Instant};

use capstan_math::gf2::{self, files::FileLayout};
use clap::Args;
use serde_json::json;

use super::files;
use crate::{
    exit::{CliFailure, Exit, Result},
    output::{Ui, microseconds, time_text},
};

#[derive(Debug, Args)]
#[command(after_help = files::FORMATS)]
pub struct RankArgs {
    /// Matrix
    file: PathBuf,
}

pub async fn run(ui: Ui, args: &RankArgs) -> Result<()> {
    let file = files::read(ui, &args.file).await?;
    let layout = FileLayout::of(&file);
    let matrix = files::matrix(&args.file, file, layout).await?;
    let (columns, rows) = (layout.columns, matrix.rows());
    let start = Instant::now();
    let rank = files::eliminate(ui, move |watch| gf2::rank(&matrix, watch)).await;
    let rank = rank.map_err(|error| CliFailure::new(Exit::Failed, error.to_string()))?;
    let time = start.elapsed();
    if ui.json {
        return ui.print_json(&json!({
            "columns": columns, "rows": rows, "rank": rank, "time_us": microseconds(time),
        }));
    }
    ui.note(&format!("eliminated in {}", time_text(time)));
    ui.print(&format!("{rows} rows of {columns} columns: rank {rank}\n"))
}
