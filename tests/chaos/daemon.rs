//! How the tests start a daemon and call it.

use std::{
    fmt::Debug,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use ark_ec::CurveGroup;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{Client, ClientError, NttOptions},
    curve::{Fr, G1Affine, G1Projective},
};
use tokio::time::sleep;

pub use crate::chaos::daemon_process::{DaemonProcess, HANGING};
use crate::chaos::{daemon_process::capstand, faults::Faults};

/// How to start a daemon.
#[derive(Default)]
pub struct DaemonOptions<'a> {
    pub flags: &'a [&'a str],
    pub faults: Option<(&'a Faults, &'a Path)>,
    /// Shell commands before the start, such as `ulimit -n 100; `.
    pub prepare: &'a str,
}

pub fn start(flags: &[&str]) -> DaemonProcess {
    start_with(&DaemonOptions { flags, ..DaemonOptions::default() })
}

/// Starts a daemon on a free port and waits until it is ready.
pub fn start_with(options: &DaemonOptions<'_>) -> DaemonProcess {
    DaemonProcess::start(command(options))
}

/// The command that starts a daemon on a free port.
pub fn command(options: &DaemonOptions<'_>) -> Command {
    let &DaemonOptions { flags, faults, prepare } = options;
    let own = ["--listen", "127.0.0.1:0", "--engine", "cpu", "--metrics-listen", "none"];
    let daemon = capstand(&[&own[..], &["--threads", "1"], flags].concat());
    // The shell becomes the daemon.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{prepare}exec \"$0\" \"$@\"")]);
    command.arg(daemon.get_program()).args(daemon.get_args()).env_clear();
    if let Some((faults, data_dir)) = faults {
        command.envs(faults.variables(data_dir));
    }
    command
}

/// The first multiples of `(seed + 1)·G`: others for each seed.
pub fn points(seed: u64, count: usize) -> Vec<G1Affine> {
    let one = G1Projective::from(<G1Affine as ark_ec::AffineRepr>::generator());
    let one = one * Fr::from(seed + 1);
    let sums = std::iter::successors(Some(one), |sum| Some(sum + one)).take(count);
    G1Projective::normalize_batch(&sums.collect::<Vec<_>>())
}

/// A transform whose result is checked: a call that needs neither disk nor much memory.
pub async fn compute(client: &Client) -> Result<(), ClientError> {
    let input: Vec<Fr> = (0..64).map(Fr::from).collect();
    let mut values = input.clone();
    client.ntt(&mut values, NttOptions::forward()).await?;
    assert!(values == Radix2EvaluationDomain::<Fr>::new(64).unwrap().fft(&input), "a wrong result");
    Ok(())
}

/// Calls `ask` until it returns `Ok`. Panics with the last error after [`HANGING`].
pub async fn until_ok<T, E: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(value) => return value,
            Err(error) => assert!(begun.elapsed() < HANGING, "never: {what}; last: {error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the daemon has no jobs and no bytes in flight.
pub async fn until_idle(client: &Client) {
    until_ok("nothing in flight", async || {
        let load = client.info().await.unwrap().load.unwrap();
        if load.jobs == 0 && load.bytes_in_flight == 0 { Ok(()) } else { Err(load) }
    })
    .await;
}
