//! `capstan bench`: measures a running server with random data and checks every result.

mod jobs;
mod measure;
mod measurement;
mod plot;
mod report;
mod shared;

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};

use self::{
    jobs::{BenchData, put_bases},
    measure::{BenchRun, Sample, StopAfter},
};
use super::{
    args::word,
    exit::Result,
    output::{OutputTarget, Ui},
    progress::TerminalProgress,
};
use crate::client::{Client, Group};

#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct BenchArgs {
    /// Operation to measure
    #[arg(long, value_enum, default_value_t)]
    op: OperationArg,
    /// Group of the bases (msm only)
    #[arg(long, value_parser = word::<Group>(), default_value = "g1")]
    group: Group,
    /// log2 of the sizes: a list such as 10,14,18 or an inclusive range such as 10..18
    #[arg(long, default_value = "10,12,14,16", value_name = "LG_N")]
    sizes: SizesArg,
    /// Number of concurrent jobs
    #[arg(long, default_value = "1,4", value_delimiter = ',', value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: Vec<u16>,
    /// Time to measure each size and concurrency
    #[arg(long, default_value = "2s", value_name = "TIME",
          value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Number of jobs per concurrent worker, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "duration",
          value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Number of jobs per concurrent worker before the measurement
    #[arg(long, default_value_t = 1, value_name = "N")]
    warm_up: u32,
    /// Keep the vectors in memory that the server shares, which needs its Unix socket
    #[arg(long)]
    shared: bool,
    /// Print engine, plan and stage times on the device for each size
    #[arg(long)]
    explain: bool,
    /// Plot latency against size into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const ABOUT: &str = "\
Latency is measured by the client from call to result, encoding and transport included. Each worker
calls without pauses, but transforms run in rounds: up to 16 vectors, as far as 512 MiB suffice for
all workers, are filled before a round and checked after it. Phases are means. --json always
includes what --explain prints.
The bases have known discrete logarithms, so every sum is checked exactly by one multiplication.
Transforms are compared with arkworks. A wrong result ends the run with code 1.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum OperationArg {
    /// Multi-scalar multiplication over stored bases
    #[default]
    Msm,
    /// Forward transform
    Ntt,
}

/// log2 of sizes, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SizesArg(Vec<u32>);

/// Larger sizes would take the client hours to prepare.
const LG_N_MAX: u32 = 26;

impl FromStr for SizesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |part: &str| {
            let lg_n = part.trim().parse().ok().filter(|&lg_n| lg_n <= LG_N_MAX);
            lg_n.ok_or_else(|| format!("expected numbers from 0 to {LG_N_MAX}"))
        };
        let mut sizes = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                Some((first, last)) => {
                    sizes.extend(parse(first)?..=parse(last.trim_start_matches('='))?);
                }
                None => sizes.push(parse(part)?),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() { Err("the range is empty".to_owned()) } else { Ok(Self(sizes)) }
    }
}

pub async fn run(ui: Ui, client: &Client, args: &BenchArgs) -> Result<()> {
    let engine = client.info().await?.engine;
    let data = prepare(ui, client, args).await?;
    let measured = measure_all(ui, client, args, &data).await;
    // Release the bases in any case; an earlier failure has precedence.
    let released = data.release(client).await;
    let samples = measured?;
    released?;
    let title = format!("{}, engine {engine}", data.operation());
    match ui.json {
        true => ui.print_json(&report::as_json(&title, &engine, &samples))?,
        false => ui.print(&report::as_text(&title, &samples))?,
    }
    if args.explain && !ui.json {
        ui.print(&report::explanation(&samples))?;
    }
    // Last: if it cannot be written, the measurements are printed nonetheless.
    if let Some(path) = &args.plot {
        OutputTarget::File(path.clone()).write(plot::latency(&title, &samples).as_bytes())?;
        ui.note(&format!("wrote plot to {}", path.display()));
    }
    Ok(())
}

async fn prepare(ui: Ui, client: &Client, args: &BenchArgs) -> Result<BenchData> {
    let largest = args.sizes.0.last().copied().expect("parsed sizes are not empty");
    Ok(match (args.op, args.group) {
        (OperationArg::Msm, Group::G1) => BenchData::MsmG1(put_bases(ui, client, largest).await?),
        (OperationArg::Msm, Group::G2) => BenchData::MsmG2(put_bases(ui, client, largest).await?),
        (OperationArg::Ntt, _) => BenchData::Ntt,
    })
}

async fn measure_all(
    ui: Ui,
    client: &Client,
    args: &BenchArgs,
    data: &BenchData,
) -> Result<Vec<Sample>> {
    let stop_after = match args.repeats {
        Some(repeats) => StopAfter::Repeats(repeats),
        None => StopAfter::Time(args.duration),
    };
    let (warm_up, is_shared) = (args.warm_up, args.shared);
    let mut samples = Vec::new();
    let steps = args.sizes.0.len() * args.concurrency.len();
    let bar = TerminalProgress::steps(ui, "", steps as u64);
    for &lg_n in &args.sizes.0 {
        bar.set_message(format!("2^{lg_n}: generating data"));
        let job = Arc::new(data.job(lg_n).await);
        for &concurrency in &args.concurrency {
            bar.set_message(format!("2^{lg_n}, concurrency {concurrency}"));
            let client = client.clone();
            let job = job.clone();
            let run = BenchRun { client, job, lg_n, concurrency, warm_up, is_shared, stop_after };
            samples.push(run.run().await?);
            bar.add(1);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lists_and_ranges_of_sizes() {
        let sizes = |text: &str| text.parse::<SizesArg>().map(|sizes| sizes.0);
        assert_eq!(sizes("12, 10,10"), Ok(vec![10, 12]));
        assert_eq!(sizes("10..12,14"), Ok(vec![10, 11, 12, 14]));
        assert_eq!(sizes("0..=2"), Ok(vec![0, 1, 2]));
        for invalid in ["", "27", "3..1", "..", "a"] {
            assert!(sizes(invalid).is_err(), "{invalid}");
        }
    }
}
