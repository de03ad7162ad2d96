//! Daemons on the CPU, inputs, and arkworks' results.

use std::{net::SocketAddr, time::Duration};

use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::client::{CurvePoint, Fr, G1Affine, MsmOptions};

use crate::many_servers::{
    daemon_process::capstand,
    sparse_inputs::{sparse_points, sparse_scalars},
    stable_port::stable_port,
};
pub use crate::many_servers::{
    daemon_process::{DaemonProcess, HANGING},
    msm_inputs::{points, scalars, sum},
};

/// More scalars than a message holds: they are streamed over two lanes.
pub const STRIPED: usize = 1 << 17;
/// Points whose upload takes two lanes: 4 MiB and more.
pub const POINTS: usize = 44_000;
/// A server takes some tenths of a second to check this many points.
const SLOW_POINTS: usize = 10_000;

/// Starts a daemon at `address`, or at a free one, where it can be started again.
pub fn start_at(address: Option<SocketAddr>) -> DaemonProcess {
    let free = || SocketAddr::from(([127, 0, 0, 1], stable_port()));
    let address = address.unwrap_or_else(free).to_string();
    let own = ["--listen", &address, "--engine", "cpu", "--metrics-listen", "none"];
    DaemonProcess::start(capstand(&[&own[..], &["--threads", "1"]].concat()))
}

pub fn start() -> DaemonProcess {
    start_at(None)
}

/// Ends a daemon like a crash, and starts another one at its address.
pub fn restart(daemon: DaemonProcess) -> DaemonProcess {
    let address = daemon.address();
    daemon.kill();
    start_at(Some(address))
}

/// [`POINTS`] points that are quick to check.
pub fn many_points(seed: u64) -> Vec<G1Affine> {
    sparse_points(POINTS, |count| points(seed, count))
}

/// [`POINTS`] points that take long enough to check and to sum for a kill in the meantime.
pub fn slow_points(seed: u64) -> Vec<G1Affine> {
    let mut all = points(seed, SLOW_POINTS);
    all.resize(POINTS, G1Affine::identity());
    all
}

/// Several vectors of [`POINTS`] scalars. The first one is slow to sum over [`slow_points`].
pub fn slow_scalars(seed: u64, vectors: usize) -> Vec<Fr> {
    let mut all = many_scalars(seed, vectors * POINTS);
    all[..SLOW_POINTS].copy_from_slice(&scalars(seed, SLOW_POINTS));
    all
}

/// Scalars that are quick to multiply by.
pub fn many_scalars(seed: u64, count: usize) -> Vec<Fr> {
    sparse_scalars(count, |count| scalars(seed, count))
}

/// arkworks' sums of several vectors.
pub fn sums<A: CurvePoint>(points: &[A], scalars: &[Fr]) -> Vec<A::Group> {
    scalars.chunks(points.len()).map(|row| sum(points, row)).collect()
}

/// The options of an MSM of several vectors.
pub fn batch(batch: u32) -> MsmOptions {
    MsmOptions { batch, ..MsmOptions::default() }
}

/// arkworks' transform.
pub fn transform(values: &[Fr]) -> Vec<Fr> {
    Radix2EvaluationDomain::<Fr>::new(values.len()).expect("a power of two").fft(values)
}

/// Fails if `work` hangs.
pub async fn bounded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANGING, work).await.expect("does not hang")
}

/// Waits a little.
pub async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
