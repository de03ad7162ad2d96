//! `capstan gf2 reduce`.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use capstan_math::gf2::{self, EliminationError, Reduction, files::FileLayout};
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
#[command(after_help = ABOUT, after_long_help = format!("{ABOUT}\n\n{}", files::FORMATS))]
pub struct ReduceArgs {
    /// Matrix of the pivots, which have distinct leading columns
    pivots: PathBuf,
    /// Matrix of the rows to reduce
    rows: PathBuf,
    /// File for the reduced rows, in the place of the rows; those that were not promoted are zero
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
}

struct ReportedRows {
    rows: BitMatrix,
    promoted: u64,
    rank: u64,
    report: EliminationReport,
}

const ABOUT: &str = "\
While a row's leading column is that of a pivot, the pivot is added to the row. A row that then is
not zero is promoted: it is a pivot for the rows after it. --help describes the files.";

pub async fn run(ui: Ui, global: &GlobalArgs, args: &ReduceArgs) -> Result<()> {
    let outputs: Vec<_> = args.output.iter().map(PathBuf::as_path).collect();
    check_distinct(&[&args.pivots, &args.rows], &outputs)?;
    let pivots_file = files::read(ui, &args.pivots).await?;
    let rows_file = files::read(ui, &args.rows).await?;
    let layout = FileLayout::of_both(&pivots_file, &rows_file)
        .map_err(|error| CliFailure::new(Exit::Data, in_files(args, &error)))?;
    let output = args.output.as_deref().map(PendingFile::create).transpose()?;
    let write = rows_file.writer();
    let pivots = files::matrix(&args.pivots, pivots_file, layout).await?;
    let rows = files::matrix(&args.rows, rows_file, layout).await?;

    let (columns, pivot_count, row_count) = (layout.columns, pivots.rows(), rows.rows());
    let reduced = match args.remote.client(global).await? {
        Some(client) => on_server(ui, &client, pivots, rows).await?,
        None => in_process(ui, &args.pivots, pivots, rows).await?,
    };
    let ReportedRows { rows, promoted, rank, report } = reduced;
    if let Some(output) = output {
        let bytes = blocking(move || write(&rows, layout.order)).await;
        output.write(&bytes)?;
        output.commit()?;
    }
    let zero = row_count as u64 - promoted;
    if ui.json {
        return ui.print_json(&report.add_to(json!({
            "columns": columns, "pivots": pivot_count, "rows": row_count,
            "promoted": promoted, "zero": zero, "rank": rank,
        })));
    }
    report.note(ui, "reduced");
    ui.print(&format!(
        "{row_count} rows of {columns} columns, {pivot_count} pivots: {promoted} promoted, {zero} \
         zero, rank {rank}\n"
    ))
}

async fn in_process(
    ui: Ui,
    pivots_file: &Path,
    pivots: BitMatrix,
    rows: BitMatrix,
) -> Result<ReportedRows> {
    let start = Instant::now();
    let reduced = files::eliminate(ui, move |watch| gf2::reduce(&pivots, rows, watch));
    let reduced = reduced.await.map_err(|error| refused(pivots_file, error))?;
    let Reduction { rows, promoted, rank } = reduced;
    let promoted = promoted.iter().filter(|promoted| **promoted).count() as u64;
    let report = EliminationReport { time: start.elapsed(), on_server: None };
    Ok(ReportedRows { rows, promoted, rank, report })
}

async fn on_server(
    ui: Ui,
    client: &Client,
    pivots: BitMatrix,
    rows: BitMatrix,
) -> Result<ReportedRows> {
    let run = async |options| client.gf2_reduce(&pivots, &rows, options).await;
    let result = with_progress(ui, &[&pivots, &rows], run).await?;
    let report = EliminationReport::of(&result);
    let (promoted, rank) = (result.nonzero_rows, result.rank);
    Ok(ReportedRows { rows: result.matrix, promoted, rank, report })
}

fn in_files(args: &ReduceArgs, error: &impl std::fmt::Display) -> String {
    format!("{}, {}: {error}", args.pivots.display(), args.rows.display())
}

fn refused(pivots: &Path, error: EliminationError) -> CliFailure {
    let failure = CliFailure::new(Exit::Data, error.to_string()).in_file(pivots.display());
    match error {
        EliminationError::Pivot(problem) => {
            CliFailure { index: Some(problem.row() as u64), ..failure }
        }
        _ => failure,
    }
}
