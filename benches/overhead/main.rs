//! The service's overhead beyond computing: latency of small jobs and memory of a large one. The
//! server runs in its own process.
//!
//! `cargo bench --bench overhead`; `-- calls=500 lg_n=20` sets the number of small calls and log2
//! of the large job's size (0 skips it). Prints tables, then one JSON object per line.

mod child;
#[path = "../support/mod.rs"]
mod support;

use std::{fs, time::Instant};

use ark_bls12_381::G1Projective;
use ark_ec::PrimeGroup;
use ark_ff::UniformRand;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::client::{BasesHandle, BasesId, Client, Fr, G1Affine, MsmOptions, NttOptions, Timing};
use child::{ChildServer, write_multiples};
use support::{Samples, argument, proc_status};
use tokio::runtime::Runtime;

const SMALL: usize = 1 << 10;
/// Memory that the server may use in addition to the payload.
const BEYOND_PAYLOAD_KIB: u64 = 64 << 10;

fn main() {
    child::serve_if_asked();
    let calls = argument("calls", 300) as usize;
    let lg_n = argument("lg_n", 22) as u32;
    let folder = tempfile::tempdir().expect("a folder");
    let small = write_multiples(folder.path(), SMALL);
    let large = (lg_n > 0).then(|| write_multiples(folder.path(), 1 << lg_n));
    let server = ChildServer::start(folder.path());
    let runtime = Runtime::new().expect("threads for a client");
    let mut records = Vec::new();
    for (name, target) in [("tcp", &server.tcp), ("unix", &server.unix)] {
        runtime.block_on(async {
            let client = Client::connect(target).await.expect("the server listens");
            small_jobs(name, &client, small, calls, &mut records).await;
        });
    }
    for (name, target) in [("tcp", &server.tcp), ("unix", &server.unix)] {
        let Some(large) = large else { break };
        runtime.block_on(async {
            let client = Client::connect(target).await.expect("the server listens");
            large_job(name, &client, large, server.pid(), &mut records).await;
        });
    }
    records.iter().for_each(|record| println!("{record}"));
}

fn elements(n: usize) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(n as u64);
    (0..n).map(|_| Fr::rand(&mut rng)).collect()
}

/// Times of one kind of call: total, the engine's part, and the rest.
#[derive(Default)]
struct CallTimes {
    total: Samples,
    compute: Samples,
    overhead: Samples,
}

impl CallTimes {
    fn add(&mut self, begun: Instant, timing: Timing) {
        let total = begun.elapsed();
        self.total.0.push(total);
        self.compute.0.push(timing.compute);
        self.overhead.0.push(total.saturating_sub(timing.compute));
    }
}

async fn small_jobs(
    transport: &str,
    client: &Client,
    bases: BasesId,
    calls: usize,
    records: &mut Vec<String>,
) {
    let bases: BasesHandle<G1Affine> = client.bases(bases).await.expect("in the data directory");
    let scalars = elements(SMALL);
    let mut values = scalars.clone();
    let (mut info, mut msm, mut ntt) =
        (CallTimes::default(), CallTimes::default(), CallTimes::default());
    for call in 0..calls + 20 {
        if call == 20 {
            // Discard the warm-up calls, which connect and touch memory.
            (info, msm, ntt) = Default::default();
        }
        // A call without work, for the time of the machine and the transport.
        let begun = Instant::now();
        client.info().await.expect("an answer");
        info.add(begun, Timing::default());
        let begun = Instant::now();
        let options = MsmOptions::default();
        let done = client.msm_with(&bases, &scalars, options).await.expect("a sum");
        msm.add(begun, done.timing);
        let begun = Instant::now();
        let done = client.ntt(&mut values, NttOptions::forward()).await.expect("a transform");
        ntt.add(begun, done.timing);
    }
    println!(
        "{transport}, {calls} calls, us         p50 total  compute   beyond   p99 beyond      min"
    );
    for (name, times) in [("info", info), ("msm 2^10", msm), ("ntt 2^10", ntt)] {
        let numbers = [
            times.total.median(),
            times.compute.median(),
            times.overhead.median(),
            times.overhead.quantile(0.99),
            times.overhead.min(),
        ]
        .map(|time| time.as_micros());
        let [total, compute, beyond, beyond_p99, least] = numbers;
        println!("{name:30} {total:9} {compute:8} {beyond:8} {beyond_p99:12} {least:8}");
        records.push(format!(
            "{{\"bench\":\"overhead\",\"transport\":\"{transport}\",\"call\":\"{name}\",\
             \"total_us\":{total},\"compute_us\":{compute},\"beyond_p50_us\":{beyond},\
             \"beyond_p99_us\":{beyond_p99},\"beyond_min_us\":{least}}}"
        ));
    }
}

async fn large_job(
    transport: &str,
    client: &Client,
    bases: BasesId,
    server: u32,
    records: &mut Vec<String>,
) {
    // The bases are mapped from disk. The server hashed them at its start, so they are part of the
    // memory that it used before.
    let bases: BasesHandle<G1Affine> = client.bases(bases).await.expect("in the data directory");
    let n = bases.len() as usize;
    let scalars = elements(n);
    let expected: Fr = scalars.iter().zip(1u64..).map(|(scalar, i)| scalar * &Fr::from(i)).sum();
    let payload_kib = (n as u64 * 32) >> 10;
    // Reset the peak of memory.
    fs::write(format!("/proc/{server}/clear_refs"), "5").expect("our own child");
    let before = proc_status(server, "VmRSS");
    let begun = Instant::now();
    let done = client.msm_with(&bases, &scalars, MsmOptions::default()).await.expect("a sum");
    let taken = begun.elapsed();
    let growth = proc_status(server, "VmHWM").saturating_sub(before);
    assert_eq!(done.points, [G1Projective::generator() * expected], "the sum is right");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let after = proc_status(server, "VmRSS").saturating_sub(before);
    let within = growth <= payload_kib + BEYOND_PAYLOAD_KIB;
    println!(
        "{transport}, msm of {n}: payload {} MiB, server grew by {} MiB at its peak ({}), {} MiB \
         one second later; {:.1} s in all, {:.1} s compute",
        payload_kib >> 10,
        growth >> 10,
        if within { "within the limit" } else { "TOO MUCH" },
        after >> 10,
        taken.as_secs_f64(),
        done.timing.compute.as_secs_f64(),
    );
    records.push(format!(
        "{{\"bench\":\"memory\",\"transport\":\"{transport}\",\"n\":{n},\
         \"payload_kib\":{payload_kib},\
         \"peak_growth_kib\":{growth},\"growth_after_kib\":{after},\"within\":{within}}}"
    ));
}
