//! `capstan ntt`.

use std::path::PathBuf;

use ark_ff::PrimeField;
use clap::Args;
use serde_json::json;

use super::{
    args::{SCALAR_FORMATS, ScalarFormat, word},
    exit::{CliFailure, Exit, Result, fail},
    input::{self, ScalarBytes},
    output::{OutputTarget, Ui, with_timings, write_elements},
    progress::TerminalProgress,
};
use crate::client::{
    Client, Direction, EncodedNttResult, Fr, NttOptions, NttReport, Order, Prime31, Verification,
};

#[derive(Debug, Args)]
#[command(after_help = SCALAR_FORMATS)]
pub struct NttArgs {
    /// File with the rows; - for standard input
    file: PathBuf,
    /// Field of a prime below 2^31, with elements of 4 bytes [default: Fr of BLS12-381]
    #[arg(long, value_parser = word::<Prime31>(), value_name = "FIELD")]
    field: Option<Prime31>,
    /// Transform evaluations to coefficients, scaled by 1/n
    #[arg(long)]
    inverse: bool,
    /// Generator of the coset, in hex
    #[arg(long, value_name = "HEX", value_parser = input::fr_from_hex)]
    coset: Option<Fr>,
    /// Element order of each input row
    #[arg(long, value_parser = word::<Order>(), default_value = "natural", value_name = "ORDER")]
    input_order: Order,
    /// Element order of each output row
    #[arg(long, value_parser = word::<Order>(), default_value = "natural", value_name = "ORDER")]
    output_order: Order,
    /// Number of rows in the file, one after another, of equal length
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// Pad each row with zeros to the next power of two, or to 2^LG_N
    #[arg(long, value_name = "LG_N", num_args = 0..=1, default_missing_value = "next",
          require_equals = true)]
    pad: Option<PadArg>,
    /// Encoding of the input and of the result, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    encoding: ScalarFormat,
    /// Reduce elements modulo the field's order, which is r or the prime, instead of refusing those
    /// that are not below it
    #[arg(long)]
    reduce: bool,
    /// Make the server check the result before returning it
    ///
    /// A probabilistic check evaluates input and result at a secret random point.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "probabilistic")]
    verify: Option<Verification>,
    /// Write the result to a file [default: standard output, in hex if it is a terminal]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    let field = args.field;
    let is_narrow = matches!(args.encoding, ScalarFormat::Binary(encoding) if !encoding.is_full());
    if is_narrow && field.is_none() {
        let message = "ntt requires 32-byte field elements: narrow encodings are for msm only";
        return fail(Exit::Usage, message);
    }
    let output = OutputTarget::new(args.out.as_deref());
    if ui.json && matches!(output, OutputTarget::Stdout) {
        let message =
            "--json and the result cannot share standard output: specify a file with --out";
        return fail(Exit::Usage, message);
    }
    let rows = input::read_scalars(ui, &args.file, field, args.encoding, args.reduce)?;
    let lg_n = lg_n(args, &rows).map_err(|failure| failure.in_file(args.file.display()))?;
    let bar = TerminalProgress::bytes(ui, "sending and receiving", rows.bytes.len() as u64);
    let ScalarBytes { encoding, bytes } = &rows;
    let result = match field {
        None => {
            let options = options(args, lg_n, args.coset, &bar);
            client.ntt_bytes(*encoding, bytes, options).await
        }
        Some(field) => {
            let coset = args.coset.map(word_of).transpose()?;
            let options = options(args, lg_n, coset, &bar);
            client.ntt31_bytes(field, *encoding, bytes, options).await
        }
    };
    drop(bar);
    let EncodedNttResult { mut bytes, report: NttReport { timing, execution } } =
        result.map_err(|error| CliFailure::from(error).in_file(args.file.display()))?;
    ui.timings(&format!("ntt 2^{lg_n}"), &timing, &execution);
    write_elements(&output, args.encoding, *encoding, &mut bytes)?;
    if ui.json {
        let mut report = json!({ "lg_n": lg_n, "batch": args.batch });
        if let Some(field) = field {
            report["field"] = field.name().into();
        }
        ui.print_json(&with_timings(report, &timing, &execution))?;
    }
    Ok(())
}

/// Options of the call; `bar` shows its progress.
fn options<C>(
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
fn lg_n(args: &NttArgs, rows: &ScalarBytes) -> Result<u32> {
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

/// The coset's generator.
fn word_of(generator: Fr) -> Result<u32> {
    match generator.into_bigint().0 {
        [low, 0, 0, 0] if u32::try_from(low).is_ok() => Ok(low as u32),
        _ => fail(Exit::Usage, "the coset's generator must be less than the prime"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coset_generators_have_32_bits() {
        assert_eq!(word_of(Fr::from(u32::MAX)).ok(), Some(u32::MAX));
        assert!(word_of(Fr::from(1_u64 << 32)).is_err() && word_of(-Fr::from(1)).is_err());
    }
}
