//! `capstan int mul`.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use num_bigint::BigUint;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    digits::{self, DigitRadix, FORMATS, FileInteger},
    local,
};
use crate::{
    args::{GlobalArgs, word},
    client::{Client, Execution, RunOptions, Timing, Verification},
    exit::{CliFailure, Exit, Result, fail},
    input,
    output::{OutputTarget, Ui, microseconds, time_text, with_timings},
    pending_file::check_distinct,
    progress::TerminalProgress,
    random::blocking,
};

#[derive(Debug, Args)]
#[command(after_help = FORMATS)]
pub struct IntMulArgs {
    /// File with the first factor; - for standard input
    a: PathBuf,
    /// File with the second factor; the same file twice squares
    b: PathBuf,
    /// Write the product in hexadecimal
    #[arg(long)]
    hex: bool,
    /// Multiply on the server of --server instead of in this process
    #[arg(long)]
    remote: bool,
    /// Make the server check the product before returning it
    ///
    /// A probabilistic check compares the product with the factors modulo secret random primes.
    #[arg(long, value_parser = word::<Verification>(), value_name = "HOW", num_args = 0..=1,
          require_equals = true, default_missing_value = "probabilistic", requires = "remote")]
    verify: Option<Verification>,
    /// Write the product to a file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A product, and how long it took.
struct MultipliedIntegers {
    limbs: Zeroizing<Vec<u32>>,
    time: Duration,
    on_server: Option<(Timing, Execution)>,
}

pub async fn run(ui: Ui, global: &GlobalArgs, args: &IntMulArgs) -> Result<()> {
    let is_square = args.a == args.b;
    if is_square && args.a.as_os_str() == "-" {
        return fail(Exit::Usage, "only one factor can be standard input");
    }
    if let Some(out) = &args.out {
        check_distinct(&[&args.a, &args.b], &[out])?;
    }
    let a = read(ui, &args.a).await?;
    let b = if is_square { None } else { Some(read(ui, &args.b).await?) };
    let of_b = b.as_ref().unwrap_or(&a);
    let radix = match (args.hex, a.radix, of_b.radix) {
        (true, ..) | (_, DigitRadix::Hexadecimal, DigitRadix::Hexadecimal) => {
            DigitRadix::Hexadecimal
        }
        _ => DigitRadix::Decimal,
    };
    let bits = [&a, of_b].map(|integer| bit_length(&digits::limbs(&integer.value)));
    let (a, b) = (digits::limbs(&a.value), b.map(|b| digits::limbs(&b.value)));
    let product = match args.remote {
        true => {
            on_server(ui, &global.client_builder()?.connect().await?, &a, b, args.verify).await?
        }
        false => in_process(ui, a, b).await?,
    };
    let MultipliedIntegers { limbs, time, on_server } = product;
    let product_bits = bit_length(&limbs);
    let spinner = TerminalProgress::spinner(ui, format!("converting to {radix} digits"));
    let text = blocking(move || digits::write(&digits::integer(&limbs), radix)).await;
    drop(spinner);
    match (ui.json, &args.out) {
        (true, None) => {}
        (_, out) => {
            let line = Zeroizing::new(format!("{}\n", *text));
            OutputTarget::new(out.as_deref()).write(line.as_bytes())?;
        }
    }
    if ui.json {
        let mut report = json!({
            "a_bits": bits[0], "b_bits": bits[1], "bits": product_bits, "radix": radix.to_string(),
            "time_us": microseconds(time),
        });
        if args.out.is_none() {
            report["product"] = text.as_str().into();
        }
        if let Some((timing, execution)) = &on_server {
            report = with_timings(report, timing, execution);
        }
        return ui.print_json(&report);
    }
    match &on_server {
        Some((timing, execution)) => ui.timings("int mul", timing, execution),
        None => ui.note(&format!("multiplied in {}", time_text(time))),
    }
    Ok(())
}

/// Reads a factor on a thread that may block.
async fn read(ui: Ui, path: &Path) -> Result<FileInteger> {
    let path = path.to_owned();
    blocking(move || {
        let bytes = input::read(ui, &path)?;
        let name = path.display();
        let _spinner = TerminalProgress::spinner(ui, format!("converting {name}"));
        digits::parse(&bytes)
            .map_err(|error| CliFailure::new(Exit::Data, error.to_string()).in_file(name))
    })
    .await
}

async fn in_process(
    ui: Ui,
    a: Zeroizing<Vec<u32>>,
    b: Option<Zeroizing<Vec<u32>>>,
) -> Result<MultipliedIntegers> {
    let _spinner = TerminalProgress::spinner(ui, "multiplying");
    let start = Instant::now();
    let limbs = blocking(move || local::multiply(a, b)).await?;
    Ok(MultipliedIntegers { limbs, time: start.elapsed(), on_server: None })
}

async fn on_server(
    ui: Ui,
    client: &Client,
    a: &[u32],
    b: Option<Zeroizing<Vec<u32>>>,
    verify: Option<Verification>,
) -> Result<MultipliedIntegers> {
    let sent = 4 * (a.len() + b.as_ref().map_or(0, |b| b.len())) as u64;
    let a = BigUint::from_slice(a);
    let b = b.map(|b| BigUint::from_slice(&b));
    let bar = TerminalProgress::bytes(ui, "sending and receiving", sent);
    let verify = verify.unwrap_or_default();
    let options = RunOptions { verify, progress: bar.callback(), ..RunOptions::default() };
    let result = client.int_mul(&a, b.as_ref().unwrap_or(&a), options).await?;
    let limbs = Zeroizing::new(result.product.to_u32_digits());
    let time = result.timing.total;
    let on_server = Some((result.timing, result.execution));
    Ok(MultipliedIntegers { limbs, time, on_server })
}

fn bit_length(limbs: &[u32]) -> u64 {
    let highest = limbs.iter().rposition(|limb| *limb != 0);
    highest.map_or(0, |at| 32 * at as u64 + u64::from(32 - limbs[at].leading_zeros()))
}
