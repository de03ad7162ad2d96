//! `capstan msm`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{
    args::{SCALAR_FORMATS, ScalarFormat, word},
    bases,
    exit::{CliFailure, Exit, Result, fail},
    input::{self, ScalarBytes},
    output::{OutputTarget, Ui, with_timings},
    progress::TerminalProgress,
};
use crate::client::{
    BasesInfo, Client, EncodedMsmResult, MsmOptions, ScalarInput, SumEncoding, Verification,
};

#[derive(Debug, Args)]
#[command(after_help = SCALAR_FORMATS)]
pub struct MsmArgs {
    /// Id of the bases, a prefix of it, or their label
    #[arg(long)]
    bases: String,
    /// File with the scalars; - for standard input
    #[arg(long, value_name = "FILE")]
    scalars: PathBuf,
    /// Encoding of the scalars, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    encoding: ScalarFormat,
    /// Number of scalar vectors in the file, one after another, each as long as the bases
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// Index of the first base to use
    #[arg(long, default_value_t = 0, value_name = "N")]
    offset: u64,
    /// Number of bases to use [default: all from the offset on]
    #[arg(long, value_name = "N")]
    length: Option<u64>,
    /// Reduce scalars modulo r instead of refusing those of r or more
    #[arg(long)]
    reduce: bool,
    /// Make the server check the result before returning it
    ///
    /// A probabilistic check computes one more MSM, of a secret random combination of the vectors.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "full")]
    verify: Option<Verification>,
    /// Encoding of the result
    #[arg(long, value_parser = word::<SumEncoding>(), default_value = "compressed",
          value_name = "FORMAT")]
    result: SumEncoding,
    /// Write the result to a file in binary [default: hex on standard output, one point per line]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write binary instead of hex to standard output
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub async fn run(ui: Ui, client: &Client, args: &MsmArgs) -> Result<()> {
    let scalars = input::read_scalars(ui, &args.scalars, None, args.encoding, args.reduce)?;
    let info = bases::find(client, &args.bases).await?;
    let length = length(args, &info, &scalars)?;
    let bar = TerminalProgress::bytes(ui, "sending scalars", scalars.bytes.len() as u64);
    let options = MsmOptions {
        batch: args.batch,
        verify: args.verify.unwrap_or_default(),
        result_encoding: args.result,
        reduce: args.reduce,
        deadline: None,
        progress: bar.callback(),
    };
    let input = ScalarInput::Bytes { encoding: scalars.encoding, bytes: &scalars.bytes };
    let sums = client.msm_id(info.group, info.id, args.offset, length, input, options).await;
    drop(bar);
    let sums = sums.map_err(|error| CliFailure::from(error).in_file(args.scalars.display()))?;
    ui.timings("msm", &sums.timing, &sums.execution);
    write(ui, args, &info, &sums)
}

/// Number of bases to use, checked against the number of scalars.
fn length(args: &MsmArgs, info: &BasesInfo, scalars: &ScalarBytes) -> Result<u64> {
    let length = args.length.unwrap_or(info.count.saturating_sub(args.offset));
    if args.offset.checked_add(length).is_none_or(|end| end > info.count) {
        return fail(Exit::Usage, format!("--offset and --length exceed the {} bases", info.count));
    }
    let (count, batch) = (scalars.count(), u64::from(args.batch));
    if length.checked_mul(batch) == Some(count) {
        return Ok(length);
    }
    let vector = count / batch;
    let hint = if count > 0 && count.is_multiple_of(batch) && vector <= length {
        format!(": use --length {vector} for the first bases only")
    } else {
        String::new()
    };
    let file = args.scalars.display();
    let message = format!(
        "{file}: {count} scalars, but {batch} x {length} are needed, one per base and vector{hint}"
    );
    fail(Exit::Data, message)
}

fn write(ui: Ui, args: &MsmArgs, info: &BasesInfo, sums: &EncodedMsmResult) -> Result<()> {
    let output = OutputTarget::new(args.out.as_deref());
    let width = args.result.point_bytes(info.group);
    let points: Vec<_> = sums.bytes.chunks(width).map(hex::encode).collect();
    if ui.json {
        let report = json!({ "group": info.group.name(), "bases": info.id.to_string() });
        let mut report = with_timings(report, &sums.timing, &sums.execution);
        match &output {
            OutputTarget::Stdout => report["points"] = points.into(),
            OutputTarget::File(_) => output.write(&sums.bytes)?,
        }
        return ui.print_json(&report);
    }
    match output {
        OutputTarget::Stdout if !args.raw => ui.print(&(points.join("\n") + "\n")),
        _ => output.write(&sums.bytes),
    }
}
