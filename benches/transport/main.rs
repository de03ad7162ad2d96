//! Uploads of scalars to Capstan, and NTTs with results as long as their input, against uploads
//! to raw tonic: the same bytes, messages and transport settings, over TCP and a Unix socket, on 1
//! to 8 connections.
//!
//! `cargo bench --bench transport`; `-- mib=256 rounds=15` sets the payload and the repeats. The
//! variants take turns, so that other load affects all of them; ratios are medians over pairs of
//! the same round. Prints a table, then one JSON object per line. For a profiler, `unix=1
//! connections=8 variant=4` runs one case, with the variant's index in `VARIANTS`.

mod raw;
#[path = "../support/mod.rs"]
mod support;

use std::{
    mem,
    time::{Duration, Instant},
};

use bytes::Bytes;
use capstan::{
    client::{BasesHandle, Client, Fr, G1Affine, MsmOptions, NttOptions, ScalarInput},
    curve::scalars::ScalarEncoding,
    server::ServerSettings,
};
use support::{Samples, argument, cpu_time, rate, ratio};
use tokio::runtime::Runtime;

const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
/// Number of bases of the streamed MSM; the payload is a batch over them.
const BASES: u64 = 1 << 16;
/// A pause after each measurement, in which freed payloads are wiped in the background.
const PAUSE: Duration = Duration::from_millis(60);

/// Narrow scalars, which the server does not check.
const ENCODING: ScalarEncoding = ScalarEncoding::Unsigned(16);

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    Raw,
    /// Put of a vector that the caller shares with the client.
    Put,
    /// Put of a borrowed vector, whose chunks the client copies and wipes.
    PutBorrowed,
    /// A streamed MSM with an engine that does nothing.
    Msm,
    /// A streamed NTT of borrowed elements, with an engine that copies its input.
    Ntt,
    /// An NTT of elements that the client owns.
    NttOwned,
}

const VARIANTS: [(Variant, &str); 6] = [
    (Variant::Raw, "raw"),
    (Variant::Put, "put"),
    (Variant::PutBorrowed, "put borrowed"),
    (Variant::Msm, "msm stream"),
    (Variant::Ntt, "ntt"),
    (Variant::NttOwned, "ntt owned"),
];

struct TransportCase {
    raw: raw::RawClient,
    client: Client,
    bases: BasesHandle<G1Affine>,
    payload: Bytes,
    elements: Vec<Fr>,
}

impl TransportCase {
    /// Wall time until the call ends, and CPU time until the payload is wiped.
    async fn run(&mut self, variant: Variant) -> (Duration, Duration) {
        let shared = || ScalarInput::Shared { encoding: ENCODING, bytes: self.payload.clone() };
        let borrowed = ScalarInput::Bytes { encoding: ENCODING, bytes: &self.payload };
        let (used, begun) = (cpu_time(), Instant::now());
        let put = match variant {
            Variant::Raw => {
                self.raw.put(&self.payload).await;
                None
            }
            Variant::Put => Some(self.client.put_vector(shared()).await.expect("room")),
            Variant::PutBorrowed => Some(self.client.put_vector(borrowed).await.expect("room")),
            Variant::Msm => {
                let batch = self.payload.len() as u64 / (16 * BASES);
                let options = MsmOptions { batch: batch as u32, ..MsmOptions::default() };
                self.client.msm_with(&self.bases, shared(), options).await.expect("a result");
                None
            }
            Variant::Ntt => {
                let options = NttOptions::default();
                self.client.ntt(&mut self.elements, options).await.expect("a result");
                None
            }
            Variant::NttOwned => {
                let row = mem::take(&mut self.elements);
                let result = self.client.ntt_owned(row, NttOptions::default()).await;
                self.elements = result.expect("a result").values;
                None
            }
        };
        let taken = begun.elapsed();
        if let Some(vector) = put {
            self.client.release_vector(vector.id).await.expect("the vector exists");
        }
        tokio::time::sleep(PAUSE).await;
        (taken, cpu_time() - used)
    }
}

fn main() {
    let bytes = argument("mib", 128) << 20;
    let rounds = argument("rounds", 9) as usize;
    assert_eq!(bytes % (16 * BASES), 0, "a whole number of scalar vectors");
    assert!(bytes.is_power_of_two(), "the length of an NTT");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("raw.sock");
    let raw_unix = format!("unix:{}", socket.display());
    let raw_tcp = raw::serve(ServerSettings::default(), socket);
    let server = support::serve(support::idle_engines(), ServerSettings::default());
    let payload = Bytes::from(vec![7; bytes as usize]);
    println!("{} MiB, {rounds} rounds; GB/s at the median and at best", bytes >> 20);
    let runtime = Runtime::new().expect("threads for a client");
    let mut records = Vec::new();
    for (name, is_unix, raw_target, target) in
        [("tcp", 0, &raw_tcp, &server.tcp), ("unix", 1, &raw_unix, &server.unix)]
    {
        for connections in CONNECTIONS {
            if !is_wanted("unix", is_unix) || !is_wanted("connections", connections as u64) {
                continue;
            }
            let samples = runtime.block_on(async {
                let raw = raw::RawClient::connect(raw_target, connections).await;
                let client = Client::builder(target).connections(connections).connect().await;
                let client = client.expect("the server listens");
                let bases = client.put_bases(&support::infinities(BASES as usize)).await;
                let bases = bases.expect("room");
                let (payload, elements) = (payload.clone(), vec![Fr::from(7); bytes as usize / 32]);
                measure(TransportCase { raw, client, bases, payload, elements }, rounds).await
            });
            show(name, connections, bytes, &samples, &mut records);
        }
    }
    records.iter().for_each(|record| println!("{record}"));
}

/// Whether the argument `name` is `value` or missing.
fn is_wanted(name: &str, value: u64) -> bool {
    argument(name, value) == value
}

/// Wall and CPU times of one variant.
#[derive(Default)]
struct VariantTimes {
    wall: Samples,
    cpu: Samples,
}

async fn measure(mut lane: TransportCase, rounds: usize) -> [VariantTimes; VARIANTS.len()] {
    let mut samples: [VariantTimes; VARIANTS.len()] = Default::default();
    // The first round connects and touches memory.
    for round in 0..=rounds {
        for turn in 0..VARIANTS.len() {
            let which = (round + turn) % VARIANTS.len();
            if !is_wanted("variant", which as u64) {
                continue;
            }
            let (wall, cpu) = lane.run(VARIANTS[which].0).await;
            if round > 0 {
                samples[which].wall.0.push(wall);
                samples[which].cpu.0.push(cpu);
            }
        }
    }
    samples
}

fn show(
    transport: &str,
    connections: usize,
    bytes: u64,
    samples: &[VariantTimes],
    records: &mut Vec<String>,
) {
    print!("{transport:4} x{connections}");
    for ((_, name), taken) in VARIANTS.iter().zip(samples) {
        if taken.wall.0.is_empty() {
            continue;
        }
        let raw = if samples[0].wall.0.is_empty() { taken } else { &samples[0] };
        let (median, min) = (taken.wall.median(), taken.wall.min());
        let cpu = taken.cpu.median();
        let ratio = ratio(&taken.wall, &raw.wall);
        let ratio_cpu = support::ratio(&taken.cpu, &raw.cpu);
        print!("  {name} {:.2} {:.2}", rate(bytes, median), rate(bytes, min));
        print!(" ({ratio:.2}x, cpu {ratio_cpu:.2}x)");
        records.push(format!(
            "{{\"bench\":\"transport\",\"transport\":\"{transport}\",\"connections\":{connections},\
             \"variant\":\"{name}\",\"bytes\":{bytes},\"median_us\":{},\"min_us\":{},\
             \"cpu_us\":{},\"ratio_to_raw\":{ratio:.3},\"cpu_ratio_to_raw\":{ratio_cpu:.3}}}",
            median.as_micros(),
            min.as_micros(),
            cpu.as_micros(),
        ));
    }
    println!();
}
