//! `capstan msm`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{
    args::{SCALAR_FORMATS, ScalarFormat, VerifyArg},
    bases,
    exit::{Exit, Failure, Result},
    input::{self, ScalarBytes},
    output::{Output, Ui, timing_json},
    progress::Bar,
};
use crate::client::{BasesInfo, Client, MsmBytes, MsmOptions, ResultEncoding, ScalarInput, Verify};

/// Which scalars and which bases.
#[derive(Debug, Args)]
#[command(after_help = SCALAR_FORMATS)]
pub struct MsmArgs {
    /// The bases: their id, the beginning of it, or their label
    #[arg(long)]
    bases: String,
    /// The scalars' file; - for standard input
    #[arg(long, value_name = "FILE")]
    scalars: PathBuf,
    /// How the scalars are written, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    encoding: ScalarFormat,
    /// Scalar vectors in the file, one after another, each as long as the bases: so many results
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// The first base to use
    #[arg(long, default_value_t = 0, value_name = "N")]
    offset: u64,
    /// How many bases to use; without: all from the offset on
    #[arg(long, value_name = "N")]
    length: Option<u64>,
    /// Take scalars of r or more modulo r, where otherwise they are refused
    #[arg(long)]
    reduce: bool,
    /// Have the server check the result before it answers
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "full")]
    verify: Option<VerifyArg>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    result: ResultArg,
    /// Where to write it: binary into a file, hex, a point a line, on standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Binary on standard output, too
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ResultArg {
    /// x and a flag: 48 bytes (g1), 96 bytes (g2)
    #[default]
    Compressed,
    /// x and y: 96 or 192 bytes
    Uncompressed,
    /// Jacobian X, Y, Z as Montgomery limbs: 144 or 288 bytes
    Projective,
}

impl From<ResultArg> for ResultEncoding {
    fn from(result: ResultArg) -> Self {
        match result {
            ResultArg::Compressed => Self::Compressed,
            ResultArg::Uncompressed => Self::Uncompressed,
            ResultArg::Projective => Self::Projective,
        }
    }
}

/// Reads, sends, writes.
pub async fn run(ui: Ui, client: &Client, args: &MsmArgs) -> Result<()> {
    let scalars = input::read_scalars(ui, &args.scalars, args.encoding, args.reduce)?;
    let info = bases::find(client, &args.bases).await?;
    let length = length(args, &info, &scalars)?;
    let bar = Bar::bytes(ui, "sending scalars", scalars.bytes.len() as u64);
    let options = MsmOptions {
        batch: args.batch,
        verify: args.verify.map_or(Verify::None, Verify::from),
        result_encoding: args.result.into(),
        reduce: args.reduce,
        deadline: None,
        progress: bar.callback(),
    };
    let input = ScalarInput::Bytes { encoding: scalars.encoding, bytes: &scalars.bytes };
    let sums = client.msm_id(info.group, info.id, args.offset, length, input, options).await;
    drop(bar);
    let sums = sums.map_err(|error| Failure::from(error).within(args.scalars.display()))?;
    ui.timings("msm", &sums.timing, &sums.execution);
    write(ui, args, &info, &sums)
}

/// How many bases take part; the scalars must be so many for each vector.
fn length(args: &MsmArgs, info: &BasesInfo, scalars: &ScalarBytes) -> Result<u64> {
    let left = info.count.checked_sub(args.offset);
    let length = left.and_then(|left| {
        let length = args.length.unwrap_or(left);
        (length <= left).then_some(length)
    });
    let Some(length) = length else {
        let message = format!("--offset and --length reach beyond the {} bases", info.count);
        return Err(Failure::new(Exit::Usage, message));
    };
    let (count, batch) = (scalars.count(), u64::from(args.batch));
    if count == length * batch {
        return Ok(length);
    }
    let hint = if count > 0 && count.is_multiple_of(batch) && count / batch <= length {
        format!(": --length {} uses only the first bases", count / batch)
    } else {
        String::new()
    };
    let file = args.scalars.display();
    let message = format!(
        "{file}: {count} scalars, but {batch} x {length} are needed, one for each base{hint}"
    );
    Err(Failure::new(Exit::Data, message))
}

fn write(ui: Ui, args: &MsmArgs, info: &BasesInfo, sums: &MsmBytes) -> Result<()> {
    let output = Output::new(args.out.as_deref());
    let width = ResultEncoding::from(args.result).point_bytes(info.group);
    let in_hex = || sums.bytes.chunks(width).map(hex::encode);
    if ui.json {
        let (timing, execution) = timing_json(&sums.timing, &sums.execution);
        let mut report = json!({
            "group": info.group.name(), "bases": info.id.to_string(),
            "timing": timing, "execution": execution,
        });
        match &output {
            Output::Stdout => report["points"] = in_hex().collect(),
            Output::File(_) => output.write(&sums.bytes)?,
        }
        return ui.print_json(&report);
    }
    match output {
        Output::Stdout if !args.raw => {
            output.write((in_hex().collect::<Vec<_>>().join("\n") + "\n").as_bytes())
        }
        _ => output.write(&sums.bytes),
    }
}
