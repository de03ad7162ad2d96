//! Batched affine additions of pairs of points: see `kernels/batch_affine.cuh`.

use capstan::device::{BlockShape, DeviceLease, DevicePtr};

use super::{PIECE, SIGN};
use crate::{
    points::{BenchGroup, KnownPoints},
    record::RateFigure,
    rig::{BenchRig, Random},
};

const MODULE: &str = "bench/curve";
/// Numbers of sums that share an inversion.
const CHAINS: [u32; 2] = [128, 256];
/// Number of results that are compared with arkworks.
const SAMPLES: usize = 64;

/// A kernel and its launch parameters.
pub struct BatchedKernel {
    name: &'static str,
    threads: u32,
    /// Coordinates that a thread stores in scratch memory for each sum.
    scratch_coordinates: usize,
}

/// Adds pairs of points of a table.
pub const G1: BatchedKernel =
    BatchedKernel { name: "g1_add", threads: 512, scratch_coordinates: 1 };
/// Like [`G1`], but fetches each coordinate once.
pub const G1_ONCE: BatchedKernel =
    BatchedKernel { name: "g1_add_keep_x", threads: 512, scratch_coordinates: 3 };
/// Like [`G1`], for G2.
pub const G2: BatchedKernel =
    BatchedKernel { name: "g2_add", threads: 256, scratch_coordinates: 1 };

impl BatchedKernel {
    fn block<G: BenchGroup>(&self) -> BlockShape {
        // Two points and a prefix product are in flight at a time.
        let shared_bytes = 5 * G::COORDINATE_BYTES as u32 * (self.threads + 2);
        BlockShape { threads: self.threads, shared_bytes }
    }

    fn scratch<G: BenchGroup>(&self, rig: &BenchRig, blocks: u32, chain: u32) -> DeviceLease {
        let pieces = self.scratch_coordinates * G::COORDINATE_BYTES / PIECE;
        let threads = (blocks * self.threads) as usize;
        rig.lease::<[u8; PIECE]>(pieces * chain as usize * threads)
    }

    fn figure<G: BenchGroup>(&self, mode: &'static str, n: usize, what: String) -> RateFigure<'_> {
        let op = if G::NAME == "g1" { "g1_add_batched_affine" } else { "g2_add_batched_affine" };
        let how = format!("{} {what}, {} threads", self.name, self.threads);
        RateFigure { op, mode, count: n as u64, times: Vec::new(), unit: "G/s", details: how }
    }
}

/// Number of sums: enough for several chains per thread.
fn count(rig: &BenchRig, threads: u32) -> usize {
    rig.size((rig.blocks(threads) * 512) as usize, 3000)
}

/// Adds neighbouring points, as in later levels of a tree: all memory accesses are sequential.
pub fn neighbours<'k, G: BenchGroup>(
    rig: &BenchRig,
    points: &KnownPoints<G>,
    kernel: &'k BatchedKernel,
) -> Vec<RateFigure<'k>> {
    let n = count(rig, kernel.threads) / (G::COORDINATE_BYTES / 48);
    let table = points.table(rig, 2 * n, 0);
    let pairs: Vec<[u32; 2]> = (0..n as u32).map(|i| [2 * i, 2 * i + 1]).collect();
    sums(rig, points, kernel, "device", &table, &pairs)
}

/// Adds random pairs of a table of `size` points.
pub fn gathered<'k, G: BenchGroup>(
    rig: &BenchRig,
    points: &KnownPoints<G>,
    kernel: &'k BatchedKernel,
    table: &DeviceLease,
    size: usize,
) -> Vec<RateFigure<'k>> {
    let mut random = Random(7);
    let n = count(rig, kernel.threads);
    let mut reference = || random.below(size) as u32 | (random.next() as u32 & SIGN);
    let pairs: Vec<[u32; 2]> = (0..n).map(|_| [reference(), reference()]).collect();
    sums(rig, points, kernel, "gathered", table, &pairs)
}

fn sums<'k, G: BenchGroup>(
    rig: &BenchRig,
    points: &KnownPoints<G>,
    kernel: &'k BatchedKernel,
    mode: &'static str,
    table: &DeviceLease,
    pairs: &[[u32; 2]],
) -> Vec<RateFigure<'k>> {
    type Parameters = (DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<[u32; 2]>, u32, u32);
    let n = pairs.len();
    let (references, out) = (rig.upload_new(pairs), rig.lease::<G::Words>(n));
    let blocks = rig.size(rig.blocks(1), 2);
    let table = table.all::<u8>();
    let compiled = rig.kernel::<Parameters>(MODULE, kernel.name, kernel.block::<G>());
    let figure = |&chain: &u32| {
        let scratch = kernel.scratch::<G>(rig, blocks, chain);
        let given = (out.all(), scratch.all(), table, references.all(), n as u32, chain);
        let times = rig.times(|| compiled.launch(&rig.stream, blocks, given));
        let expected = |i: usize| {
            let [first, second] = pairs[i].map(|reference| signed(points, reference));
            first + second
        };
        check::<G>(rig, &out, n, expected, kernel.name);
        let what = format!("chains of {chain}, {:.1} GB", table.len() as f64 / 1e9);
        RateFigure { times, ..kernel.figure::<G>(mode, n, what) }
    };
    CHAINS.iter().map(figure).collect()
}

/// The point that a reference names, with its sign.
pub fn signed<G: BenchGroup>(points: &KnownPoints<G>, reference: u32) -> G {
    let point: G = points.at((reference & !SIGN) as usize).into();
    if reference & SIGN == 0 { point } else { -point }
}

/// Compares some results with arkworks, including the first and the last.
fn check<G: BenchGroup>(
    rig: &BenchRig,
    out: &DeviceLease,
    n: usize,
    expected: impl Fn(usize) -> G,
    name: &str,
) {
    let mut random = Random(3);
    let all = out.all::<G::Words>();
    for sample in 0..SAMPLES {
        let i = match sample {
            0 => 0,
            1 => n - 1,
            _ => random.below(n),
        };
        let found = rig.get(all.slice(i, 1).expect("inside"));
        let found = G::from_affine_words(bytemuck::cast_slice(&found));
        assert_eq!(found, expected(i).into_affine(), "{name}: sum {i}");
    }
}
