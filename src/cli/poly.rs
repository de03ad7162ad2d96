//! `capstan poly`: polynomials by their coefficients.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    args::{SCALAR_FORMATS, ScalarFormat, word},
    client::{
        Client, Execution, PolyFactors, PolyMulOptions, PolyReduction, Prime31, ScalarEncoding,
        Timing, Verification,
    },
    exit::{Exit, Result, fail},
    input::{self, ScalarBytes},
    output::{OutputTarget, Ui, encoded, encoded_words, with_timings, write_elements},
    progress::TerminalProgress,
};

#[derive(Debug, Subcommand)]
pub enum PolyCommand {
    /// Multiply polynomials: whole, or modulo X^N - 1 or X^N + 1
    Mul(PolyMulArgs),
}

#[derive(Debug, Args)]
#[command(after_help = SCALAR_FORMATS)]
pub struct PolyMulArgs {
    /// File with the coefficients of the first factor, the lowest first; - for standard input
    a: PathBuf,
    /// File with the coefficients of the second factor; the same file twice squares
    b: PathBuf,
    /// Field of a prime below 2^31, with elements of 4 bytes [default: Fr of BLS12-381]
    #[arg(long, value_parser = word::<Prime31>(), value_name = "FIELD")]
    field: Option<Prime31>,
    /// Reduce the product modulo X^N - 1
    #[arg(long, value_name = "N", conflicts_with = "negacyclic")]
    cyclic: Option<u64>,
    /// Reduce the product modulo X^N + 1
    #[arg(long, value_name = "N")]
    negacyclic: Option<u64>,
    /// Number of polynomials in each file, one after another, of equal length
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// Encoding of the factors and of the product, see below
    #[arg(long, default_value = "canonical", value_name = "FORMAT")]
    encoding: ScalarFormat,
    /// Reduce coefficients modulo the field's order, which is r or the prime, instead of refusing
    /// those that are not below it
    #[arg(long)]
    reduce: bool,
    /// Make the server check the product before returning it
    ///
    /// A probabilistic check evaluates the factors and the product at a secret random point.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "probabilistic")]
    verify: Option<Verification>,
    /// Write the product to a file [default: standard output, in hex if it is a terminal]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What is reported of a product.
struct ProductReport {
    coefficients: usize,
    timing: Timing,
    execution: Execution,
}

pub async fn run(ui: Ui, client: &Client, command: &PolyCommand) -> Result<()> {
    match command {
        PolyCommand::Mul(args) => multiply(ui, client, args).await,
    }
}

async fn multiply(ui: Ui, client: &Client, args: &PolyMulArgs) -> Result<()> {
    if matches!(args.encoding, ScalarFormat::Binary(encoding) if !encoding.is_full()) {
        let message = "poly mul requires field elements: narrow encodings are for msm only";
        return fail(Exit::Usage, message);
    }
    let output = OutputTarget::new(args.out.as_deref());
    if ui.json && matches!(output, OutputTarget::Stdout) {
        let message =
            "--json and the product cannot share standard output: specify a file with --out";
        return fail(Exit::Usage, message);
    }
    if args.a == args.b && args.a.as_os_str() == "-" {
        return fail(Exit::Usage, "only one factor can be standard input");
    }
    let a = args.read(ui, &args.a)?;
    let b = if args.a == args.b { None } else { Some(args.read(ui, &args.b)?) };
    let b = b.as_ref().unwrap_or(&a);
    let sent = a.bytes.len() + if args.a == args.b { 0 } else { b.bytes.len() };
    let bar = TerminalProgress::bytes(ui, "sending and receiving", sent as u64);
    let options = PolyMulOptions {
        reduction: args.reduction(),
        batch: args.batch,
        verify: args.verify.unwrap_or_default(),
        reduce: args.reduce,
        deadline: None,
        progress: bar.callback(),
    };
    let factors = PolyFactors { encoding: a.encoding, a: &a.bytes, b: &b.bytes };
    let report = args.multiply(client, factors, options, &output).await?;
    drop(bar);
    let ProductReport { coefficients, timing, execution } = report;
    ui.timings(&format!("poly mul, {coefficients} coefficients"), &timing, &execution);
    if ui.json {
        let report = json!({
            "coefficients": coefficients, "batch": args.batch,
            "field": args.field.map_or("bls12-381-fr", Prime31::name),
        });
        ui.print_json(&with_timings(report, &timing, &execution))?;
    }
    Ok(())
}

impl PolyMulArgs {
    fn reduction(&self) -> PolyReduction {
        let negacyclic = self.negacyclic.map(PolyReduction::Negacyclic);
        self.cyclic.map(PolyReduction::Cyclic).or(negacyclic).unwrap_or_default()
    }

    /// Reads the rows of a factor.
    fn read(&self, ui: Ui, path: &Path) -> Result<ScalarBytes> {
        let factor = input::read_scalars(ui, path, self.field, self.encoding, self.reduce)?;
        let count = factor.count();
        let batch = u64::from(self.batch);
        let file = path.display();
        if count == 0 {
            return fail(Exit::Data, format!("{file}: no coefficients: a factor needs one"));
        }
        if count % batch != 0 {
            let message =
                format!("{file}: {count} coefficients are not {batch} rows of equal length");
            return fail(Exit::Data, message);
        }
        Ok(factor)
    }

    /// Multiplies, and writes the product.
    async fn multiply(
        &self,
        client: &Client,
        factors: PolyFactors<'_>,
        options: PolyMulOptions,
        output: &OutputTarget,
    ) -> Result<ProductReport> {
        let encoding = factors.encoding;
        let (mut bytes, timing, execution) = match self.field {
            None => {
                let product = client.poly_mul_fr_bytes(factors, options).await?;
                let elements = Zeroizing::new(product.coefficients);
                (encoded(encoding, &elements), product.timing, product.execution)
            }
            Some(field) => {
                let product = client.poly_mul31_bytes(field, factors, options).await?;
                let words = Zeroizing::new(product.coefficients);
                let is_montgomery = encoding == ScalarEncoding::Montgomery31;
                let bytes = encoded_words(field, is_montgomery, &words);
                (bytes, product.timing, product.execution)
            }
        };
        write_elements(output, self.encoding, encoding, &mut bytes)?;
        Ok(ProductReport { coefficients: bytes.len() / encoding.width(), timing, execution })
    }
}
