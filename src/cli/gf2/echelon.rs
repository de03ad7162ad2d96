//! `capstan gf2 echelon`.

use std::{path::PathBuf, time::Instant};

use clap::Args;
use serde_json::json;

use super::files;
use crate::{
    cli::{
        exit::{CliFailure, Exit, Result},
        output::{Ui, microseconds, time_text},
        pending_file::{PendingFile, check_distinct},
        random::blocking,
    },
    gf2::{self, Echelon, files::FileLayout},
};

#[derive(Debug, Args)]
#[command(after_help = files::FORMATS)]
pub struct EchelonArgs {
    /// Matrix
    file: PathBuf,
    /// File for the echelon form: the rows by leading column, and then rows of zeros
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub async fn run(ui: Ui, args: &EchelonArgs) -> Result<()> {
    check_distinct(&[&args.file], &[&args.output])?;
    let file = files::read(ui, &args.file).await?;
    let (layout, write) = (FileLayout::of(&file), file.writer());
    let output = PendingFile::create(&args.output)?;
    let matrix = files::matrix(&args.file, file, layout).await?;
    let (columns, rows) = (layout.columns, matrix.rows());
    let start = Instant::now();
    let form = files::eliminate(ui, move |watch| gf2::echelon(matrix, watch)).await;
    let form = form.map_err(|error| CliFailure::new(Exit::Failed, error.to_string()))?;
    let time = start.elapsed();
    let Echelon { matrix, leading } = form;
    let bytes = blocking(move || write(&matrix, layout.order)).await;
    output.write(&bytes)?;
    output.commit()?;
    let rank = leading.len();
    if ui.json {
        return ui.print_json(&json!({
            "columns": columns, "rows": rows, "rank": rank, "time_us": microseconds(time),
        }));
    }
    ui.note(&format!("eliminated in {}", time_text(time)));
    ui.print(&format!("{rows} rows of {columns} columns: rank {rank}\n"))
}
