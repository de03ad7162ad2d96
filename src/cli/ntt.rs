//! `capstan ntt`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    args::{SCALAR_FORMATS, ScalarFormat, word},
    exit::{CliFailure, Exit, Result, fail},
    input::{self, ScalarBytes},
    output::{OutputTarget, Ui, with_timings},
    progress::TerminalProgress,
};
use crate::{
    client::{
        Client, Direction, EncodedNttResult, Fr, NttOptions, NttReport, Order, Prime31,
        ScalarEncoding, Verification,
    },
    formats::scalars::{self, Notation},
};

#[derive(Debug, Args)]
#[command(after_help = SCALAR_FORMATS)]
pub struct NttArgs {
    /// File with the rows; - for standard input
    pub(super) file: PathBuf,
    /// Field of a prime below 2^31, with elements of 4 bytes [default: Fr of BLS12-381]
    #[arg(long, value_parser = word::<Prime31>(), value_name = "FIELD")]
    pub(super) field: Option<Prime31>,
    /// Transform evaluations to coefficients, scaled by 1/n
    #[arg(long)]
    inverse: bool,
    /// Generator of the coset, in hex
    #[arg(long, value_name = "HEX", value_parser = input::fr_from_hex)]
    pub(super) coset: Option<Fr>,
    /// Element order of each input row
    #[arg(long, value_parser = word::<Order>(), default_value = "natural", value_name = "ORDER")]
    input_order: Order,
    /// Element order of each output row
    #[arg(long, value_parser = word::<Order>(), default_value = "natural", value_name = "ORDER")]
    output_order: Order,
    /// Number of rows in the file, one after another, of equal length
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) batch: u32,
    /// Pad each row with zeros to the next power of two, or to 2^LG_N
    #[arg(long, value_name = "LG_N", num_args = 0..=1, default_missing_value = "next",
          require_equals = true)]
    pad: Option<PadArg>,
    /// Encoding of the input and of the result, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    pub(super) encoding: ScalarFormat,
    /// Reduce elements modulo the field's order, which is r or the prime, instead of refusing those
    /// that are not below it
    #[arg(long)]
    pub(super) reduce: bool,
    /// Make the server check the result before returning it
    ///
    /// A probabilistic check evaluates input and result at a secret random point.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "probabilistic")]
    verify: Option<Verification>,
    /// Write the result to a file [default: standard output, in hex if it is a terminal]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PadArg {
    Next,
    To(u32),
}

impl std::str::FromStr for PadArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "next" {
            return Ok(Self::Next);
        }
        let lg_n = text.parse().ok().filter(|&lg_n| lg_n <= crate::curve::TWO_ADICITY);
        lg_n.map(Self::To).ok_or_else(|| "expected a number from 0 to 32".to_owned())
    }
}

pub async fn run(ui: Ui, client: &Client, args: &NttArgs) -> Result<()> {
    if matches!(args.encoding, ScalarFormat::Binary(encoding) if !encoding.is_full()) {
        let message = "ntt requires 32-byte field elements: narrow encodings are for msm only";
        return fail(Exit::Usage, message);
    }
    if ui.json && matches!(OutputTarget::new(args.out.as_deref()), OutputTarget::Stdout) {
        let message =
            "--json and the result cannot share standard output: specify a file with --out";
        return fail(Exit::Usage, message);
    }
    let rows = input::read_scalars(ui, &args.file, args.encoding, args.reduce)?;
    let lg_n = lg_n(args, &rows).map_err(|failure| failure.in_file(args.file.display()))?;
    let bar = TerminalProgress::bytes(ui, "sending and receiving", rows.bytes.len() as u64);
    let options = options(args, lg_n, args.coset, &bar);
    let result = client.ntt_bytes(rows.encoding, &rows.bytes, options).await;
    drop(bar);
    let EncodedNttResult { mut bytes, report: NttReport { timing, execution } } =
        result.map_err(|error| CliFailure::from(error).in_file(args.file.display()))?;
    ui.timings(&format!("ntt 2^{lg_n}"), &timing, &execution);
    let output = OutputTarget::new(args.out.as_deref());
    write(&output, args.encoding, rows.encoding, &mut bytes)?;
    if ui.json {
        let report = json!({ "lg_n": lg_n, "batch": args.batch });
        ui.print_json(&with_timings(report, &timing, &execution))?;
    }
    Ok(())
}

/// Options of the call; `bar` shows its progress.
pub(super) fn options<C>(
    args: &NttArgs,
    lg_n: u32,
    coset: Option<C>,
    bar: &TerminalProgress,
) -> NttOptions<C> {
    NttOptions {
        lg_n: Some(lg_n),
        direction: if args.inverse { Direction::Inverse } else { Direction::Forward },
        coset,
        input_order: args.input_order,
        output_order: args.output_order,
        batch: args.batch,
        verify: args.verify.unwrap_or_default(),
        reduce: args.reduce,
        deadline: None,
        progress: bar.callback(),
    }
}

/// log2 of a row's length, after padding.
pub(super) fn lg_n(args: &NttArgs, rows: &ScalarBytes) -> Result<u32> {
    let (count, batch) = (rows.count(), u64::from(args.batch));
    let data = |message| fail(Exit::Data, message);
    if count % batch != 0 {
        return data(format!("{count} elements are not {batch} rows of equal length"));
    }
    let row = count / batch;
    match args.pad {
        Some(PadArg::Next) => Ok(row.max(1).next_power_of_two().ilog2()),
        Some(PadArg::To(lg_n)) if row <= 1 << lg_n => Ok(lg_n),
        Some(PadArg::To(lg_n)) => data(format!("a row has {row} elements, more than 2^{lg_n}")),
        None if row.is_power_of_two() => Ok(row.ilog2()),
        None => data(format!(
            "a row has {row} elements, which is not a power of two: use --pad to append zeros"
        )),
    }
}

/// Writes elements of 32 bytes, of which `encoding` is the one in memory.
pub(super) fn write(
    output: &OutputTarget,
    format: ScalarFormat,
    encoding: ScalarEncoding,
    bytes: &mut [u8],
) -> Result<()> {
    match format {
        ScalarFormat::Text(radix) => output.write(scalars::to_text(radix, bytes).as_bytes()),
        ScalarFormat::Binary(_) | ScalarFormat::BigEndian if output.is_terminal() => {
            output.write(terminal_text(encoding, bytes).as_bytes())
        }
        ScalarFormat::BigEndian => {
            scalars::reverse_scalars(bytes)?;
            output.write(bytes)
        }
        ScalarFormat::Binary(_) => output.write(bytes),
    }
}

/// Hex for a terminal, one element per line.
fn terminal_text(encoding: ScalarEncoding, bytes: &[u8]) -> Zeroizing<String> {
    if encoding == ScalarEncoding::Canonical {
        return scalars::to_text(Notation::Hex, bytes);
    }
    // Montgomery limbs are shown unconverted, because the user chose this encoding.
    let mut lines = Zeroizing::new(String::with_capacity(bytes.len() / 32 * 65));
    for element in bytes.chunks_exact(32) {
        lines.push_str(&Zeroizing::new(hex::encode(element)));
        lines.push('\n');
    }
    lines
}
