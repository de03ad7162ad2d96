//! `capstan gf2 echelon`.

use std::{path::PathBuf, time::Instant};

use capstan_math::gf2::{self, Echelon, files::FileLayout};
use clap::Args;
use serde_json::json;

use super::{
    files,
    remote::{EliminationReport, RemoteArgs, with_progress},
};
use crate::{
    args::GlobalArgs,
    client::{BitMatrix, Client},
    exit::{CliFailure, Exit, Result},
    output::Ui,
    pending_file::{PendingFile, check_distinct},
    random::blocking,
};

#[derive(Debug, Args)]
#[command(after_help = files::FORMATS)]
pub struct EchelonArgs {
    /// Matrix
    file: PathBuf,
    /// File for the echelon form: the rows by leading column, and then rows of zeros
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    remote: RemoteArgs,
}

struct EchelonForm {
    matrix: BitMatrix,
    rank: u64,
    report: EliminationReport,
}

pub async fn run(ui: Ui, global: &GlobalArgs, args: &EchelonArgs) -> Result<()> {
    check_distinct(&[&args.file], &[&args.output])?;
    let file = files::read(ui, &args.file).await?;
    let layout = FileLayout::of(&file);
    let write = file.writer();
    let output = PendingFile::create(&args.output)?;
    let matrix = files::matrix(&args.file, file, layout).await?;
    let (columns, rows) = (layout.columns, matrix.rows());
    let form = match args.remote.client(global).await? {
        Some(client) => on_server(ui, &client, matrix).await?,
        None => in_process(ui, matrix).await?,
    };
    let EchelonForm { matrix, rank, report } = form;
    let bytes = blocking(move || write(&matrix, layout.order)).await;
    output.write(&bytes)?;
    output.commit()?;
    if ui.json {
        let json = json!({ "columns": columns, "rows": rows, "rank": rank });
        return ui.print_json(&report.add_to(json));
    }
    report.note(ui, "eliminated");
    ui.print(&format!("{rows} rows of {columns} columns: rank {rank}\n"))
}

async fn in_process(ui: Ui, matrix: BitMatrix) -> Result<EchelonForm> {
    let start = Instant::now();
    let form = files::eliminate(ui, move |watch| gf2::echelon(matrix, watch)).await;
    let form = form.map_err(|error| CliFailure::new(Exit::Failed, error.to_string()))?;
    let Echelon { matrix, leading } = form;
    let report = EliminationReport { time: start.elapsed(), on_server: None };
    Ok(EchelonForm { matrix, rank: leading.len() as u64, report })
}

async fn on_server(ui: Ui, client: &Client, matrix: BitMatrix) -> Result<EchelonForm> {
    let run = async |options| client.gf2_echelon(&matrix, options).await;
    let result = with_progress(ui, &[&matrix], run).await?;
    let report = EliminationReport::of(&result);
    Ok(EchelonForm { matrix: result.matrix, rank: result.rank, report })
}
