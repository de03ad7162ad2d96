//! Computes pi: the series of the Chudnovskys by binary splitting, a division and a root by
//! Newton's method, and decimal digits. All large products run on the server, in five phases:
//!
//! - leaves: the client sums a few terms of the series in each row, on all its cores, and sends
//!   them;
//! - series: one program multiplies and adds neighbours until one fraction Q / T is left;
//! - division: one program computes pi as a fraction of a power of two;
//! - conversion: one program cuts the fraction into rows of a few thousand digits;
//! - text: the client makes the digits of the rows, on all its cores.
//!
//! `cargo run --release --example pi -- 1000000`
//!
//! `cargo run --release --example pi -- 300000000 --server unix:/run/capstan.sock --output pi.txt`

#[path = "../common/mod.rs"]
mod common;

mod admission;
mod arguments;
mod bounds;
mod chunks;
mod computation;
mod conversion;
mod known;
mod last_level;
mod leaves;
mod newton;
mod quotient;
mod report;
mod series;
mod sizes;
mod terms;
#[cfg(test)]
mod tests;

use std::{error::Error, io, process::ExitCode};

use capstan::client::Client;
use clap::Parser;

use self::{
    arguments::{Arguments, Output},
    computation::Computation,
    report::Report,
};

/// Large vectors travel over all of them.
const CONNECTIONS: usize = 8;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Outcome<()> {
    let output = arguments.output.map(Output::open).transpose()?;
    let own_server = arguments.server.is_none().then(common::server);
    let target = arguments.server.or(own_server.as_ref().map(|server| server.target.clone()));
    let client = Client::builder(target.unwrap_or_default());
    let client = client.connections(CONNECTIONS).connect().await?;
    let mut computation = Computation::new(client, arguments.digits)?;
    let digits = computation.run().await?;
    let digits = &digits[..arguments.digits as usize];
    if let Some(output) = output {
        output.write(digits)?;
    }
    let report = Report { digits, phases: &computation.phases };
    report.print(arguments.json, &mut io::stdout())
}
