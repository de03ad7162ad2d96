//! `capstan bench`: what a running server does with random data, every answer checked.

mod measure;
mod plot;
mod report;
mod work;

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{Args, ValueEnum};

use self::{
    measure::{Amount, Sample},
    work::Work,
};
use super::{
    args::{GroupArg, duration},
    exit::Result,
    output::{Output, Ui},
    progress::Bar,
};
use crate::client::{Client, G1Affine, G2Affine};

/// What to measure.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct BenchArgs {
    /// Which operation
    #[arg(long, value_enum, default_value_t)]
    op: Op,
    /// The bases' group (msm)
    #[arg(long, value_enum, default_value = "g1")]
    group: GroupArg,
    /// log2 of the sizes: a list such as 10,14,18 or a range such as 10..18, both ends included
    #[arg(long, default_value = "10,12,14,16", value_name = "LG_N")]
    sizes: Sizes,
    /// Jobs at a time
    #[arg(long, default_value = "1,4", value_delimiter = ',', value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: Vec<u16>,
    /// How long to measure each size and concurrency
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    seconds: Duration,
    /// Jobs to measure instead, each of those at a time
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Jobs before measuring, each of those at a time
    #[arg(long, default_value_t = 1, value_name = "N")]
    warm_up: u32,
    /// Say who did the jobs of each size, by which plan, and where the device's time went
    #[arg(long)]
    explain: bool,
    /// Draw latency against size into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const ABOUT: &str = "\
Latency is the client's: from call to result, encoding and transport included. Phases are means;
--json always has what --explain says.
Bases are a walk with known discrete logarithms, so that every sum is checked exactly by one
multiplication; transforms are compared with arkworks. A wrong answer ends the run with code 1.";

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Op {
    /// Multi-scalar multiplication over bases put before
    #[default]
    Msm,
    /// Forward transform
    Ntt,
}

/// log2 of sizes, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(Vec<u32>);

/// Larger ones would take the client hours to prepare.
const LG_N_MAX: u32 = 26;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| {
            let lg_n = part.trim().parse().ok().filter(|&lg_n| lg_n <= LG_N_MAX);
            lg_n.ok_or_else(|| format!("numbers from 0 to {LG_N_MAX}"))
        };
        let mut sizes = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                Some((first, last)) => {
                    sizes.extend(one(first)?..=one(last.trim_start_matches('='))?);
                }
                None => sizes.push(one(part)?),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() { Err("the range is empty".to_owned()) } else { Ok(Self(sizes)) }
    }
}

/// Measures everything asked for, prints, draws.
pub async fn run(ui: Ui, client: &Client, args: &BenchArgs) -> Result<()> {
    let engine = client.info().await?.engine;
    let work = prepare(ui, client, args).await?;
    let measured = measure_all(ui, client, args, &work).await;
    // The bases go in any case, and a failure before says more than one here.
    let released = work.release(client).await;
    let samples = measured?;
    released?;
    let title = match args.op {
        Op::Msm => format!("MSM over {}, engine {engine}", work.what()),
        Op::Ntt => format!("NTT over Fr, engine {engine}"),
    };
    if let Some(path) = &args.plot {
        Output::File(path.clone()).write(plot::latency(&title, &samples).as_bytes())?;
        ui.note(&format!("plot in {}", path.display()));
    }
    if ui.json {
        return ui.print_json(&report::as_json(&title, &engine, &samples));
    }
    ui.print(&report::as_text(&title, &samples))?;
    if args.explain { ui.print(&report::explanation(&samples)) } else { Ok(()) }
}

async fn prepare(ui: Ui, client: &Client, args: &BenchArgs) -> Result<Work> {
    let largest = args.sizes.0.last().copied().expect("parsed sizes are not empty");
    match (args.op, args.group) {
        (Op::Msm, GroupArg::G1) => Work::msm::<G1Affine>(ui, client, largest, Work::MsmG1).await,
        (Op::Msm, GroupArg::G2) => Work::msm::<G2Affine>(ui, client, largest, Work::MsmG2).await,
        (Op::Ntt, _) => Ok(Work::Ntt),
    }
}

async fn measure_all(
    ui: Ui,
    client: &Client,
    args: &BenchArgs,
    work: &Work,
) -> Result<Vec<Sample>> {
    let amount = match args.repeats {
        Some(repeats) => Amount::Repeats(repeats),
        None => Amount::Time(args.seconds),
    };
    let mut samples = Vec::new();
    let steps = args.sizes.0.len() * args.concurrency.len();
    let bar = Bar::steps(ui, "", steps as u64);
    for &lg_n in &args.sizes.0 {
        bar.say(format!("2^{lg_n}: making data"));
        let job = work.job(lg_n).await;
        for &concurrency in &args.concurrency {
            bar.say(format!("2^{lg_n}, {concurrency} at a time"));
            let sample = measure::run(client, &job, lg_n, concurrency, args.warm_up, amount);
            samples.push(sample.await?);
            bar.add(1);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_and_ranges() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(sizes("12, 10,10"), Ok(vec![10, 12]));
        assert_eq!(sizes("10..12,14"), Ok(vec![10, 11, 12, 14]));
        assert_eq!(sizes("0..=2"), Ok(vec![0, 1, 2]));
        for bad in ["", "27", "3..1", "..", "a"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }
}
