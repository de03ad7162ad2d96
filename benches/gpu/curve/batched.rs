//! Batched affine additions of pairs of points: see `kernels/batch_affine.cuh`.

use capstan::device::{Block, Lease, Ptr};

use super::{PIECE, SIGN};
use crate::{
    points::{Group, Points},
    record::Figure,
    rig::{Random, Rig},
};

const MODULE: &str = "bench/curve";
/// Numbers of sums that share an inversion.
const CHAINS: [u32; 2] = [128, 256];
/// Number of results that are compared with arkworks.
const SAMPLES: usize = 64;

/// A kernel and its launch parameters.
pub struct Kernel {
    name: &'static str,
    threads: u32,
    /// Coordinates that a thread stores in scratch memory for each sum.
    scratch_coordinates: usize,
}

/// Adds pairs of points of a table.
pub const G1: Kernel = Kernel { name: "g1_add", threads: 512, scratch_coordinates: 1 };
/// Like [`G1`], but fetches each coordinate once.
pub const G1_ONCE: Kernel = Kernel { name: "g1_add_once", threads: 512, scratch_coordinates: 3 };
/// Like [`G1`], for G2.
pub const G2: Kernel = Kernel { name: "g2_add", threads: 256, scratch_coordinates: 1 };

impl Kernel {
    fn block<G: Group>(&self) -> Block {
        // Two points and a prefix product are in flight at a time.
        let shared_bytes = 5 * G::COORDINATE_BYTES as u32 * (self.threads + 2);
        Block { threads: self.threads, shared_bytes }
    }

    fn scratch<G: Group>(&self, rig: &Rig, blocks: u32, chain: u32) -> Lease {
        let pieces = self.scratch_coordinates * G::COORDINATE_BYTES / PIECE;
        let threads = (blocks * self.threads) as usize;
        rig.memory::<[u8; PIECE]>(pieces * chain as usize * threads)
    }

    fn figure<G: Group>(&self, mode: &'static str, n: usize, what: String) -> Figure<'_> {
        let op = if G::NAME == "g1" { "g1_add_batched_affine" } else { "g2_add_batched_affine" };
        let how = format!("{} {what}, {} threads", self.name, self.threads);
        Figure { op, mode, count: n as u64, times: Vec::new(), unit: "G/s", details: how }
    }
}

/// Number of sums: enough for several chains per thread.
fn count(rig: &Rig, threads: u32) -> usize {
    rig.size((rig.blocks(threads) * 512) as usize, 3000)
}

/// Adds neighbouring points, as in later levels of a tree: all memory accesses are sequential.
pub fn neighbours<'k, G: Group>(
    rig: &Rig,
    points: &Points<G>,
    kernel: &'k Kernel,
) -> Vec<Figure<'k>> {
    let n = count(rig, kernel.threads) / (G::COORDINATE_BYTES / 48);
    let table = points.table(rig, 2 * n, 0);
    let pairs: Vec<[u32; 2]> = (0..n as u32).map(|i| [2 * i, 2 * i + 1]).collect();
    sums(rig, points, kernel, "device", &table, &pairs)
}

/// Adds random pairs of a table of `size` points.
pub fn gathered<'k, G: Group>(
    rig: &Rig,
    points: &Points<G>,
    kernel: &'k Kernel,
    table: &Lease,
    size: usize,
) -> Vec<Figure<'k>> {
    let mut random = Random(7);
    let n = count(rig, kernel.threads);
    let mut reference = || random.below(size) as u32 | (random.next() as u32 & SIGN);
    let pairs: Vec<[u32; 2]> = (0..n).map(|_| [reference(), reference()]).collect();
    sums(rig, points, kernel, "gathered", table, &pairs)
}

fn sums<'k, G: Group>(
    rig: &Rig,
    points: &Points<G>,
    kernel: &'k Kernel,
    mode: &'static str,
    table: &Lease,
    pairs: &[[u32; 2]],
) -> Vec<Figure<'k>> {
    type Parameters = (Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<[u32; 2]>, u32, u32);
    let n = pairs.len();
    let (references, out) = (rig.memory_of(pairs), rig.memory::<G::Words>(n));
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
        Figure { times, ..kernel.figure::<G>(mode, n, what) }
    };
    CHAINS.iter().map(figure).collect()
}

/// The point that a reference names, with its sign.
pub fn signed<G: Group>(points: &Points<G>, reference: u32) -> G {
    let point: G = points.at((reference & !SIGN) as usize).into();
    if reference & SIGN == 0 { point } else { -point }
}

/// Compares some results with arkworks, including the first and the last.
fn check<G: Group>(rig: &Rig, out: &Lease, n: usize, expected: impl Fn(usize) -> G, name: &str) {
    let mut random = Random(3);
    let all = out.all::<G::Words>();
    for sample in 0..SAMPLES {
        let i = match sample {
            0 => 0,
            1 => n - 1,
            _ => random.below(n),
        };
        let found = rig.get(all.part(i, 1).expect("inside"));
        let found = G::of(bytemuck::cast_slice(&found));
        assert_eq!(found, expected(i).into_affine(), "{name}: sum {i}");
    }
}
