//! out[i] = first(i) + second(i): see `kernels/batch_affine.cuh`.

use capstan::device::{Block, Lease, Ptr, Span};

use super::{PIECE, SIGN};
use crate::{
    points::{Group, Points, SPLIT_BYTES},
    record::Figure,
    rig::{Random, Rig},
};

const MODULE: &str = "bench/curve";
/// Sums that share an inversion.
const CHAINS: [u32; 2] = [128, 256];
/// Results that are compared with arkworks.
const SAMPLES: usize = 64;

/// How a kernel is launched.
pub struct Kernel {
    name: &'static str,
    threads: u32,
    /// Coordinates that a thread keeps in scratch, a sum.
    kept: usize,
}

/// Of neighbours in memory.
pub const G1: Kernel = Kernel { name: "g1_add_sequential", threads: 512, kept: 1 };
/// The same over Fp2.
pub const G2: Kernel = Kernel { name: "g2_add_sequential", threads: 256, kept: 1 };
/// Of points that references name.
const GATHERED: [Kernel; 2] = [
    Kernel { name: "g1_add_gathered", threads: 512, kept: 1 },
    Kernel { name: "g1_add_gathered_once", threads: 512, kept: 3 },
];

impl Kernel {
    fn block<G: Group>(&self) -> Block {
        // Two points and a prefix product travel at a time.
        let shared_bytes = 5 * G::COORDINATE_BYTES as u32 * self.threads;
        Block { threads: self.threads, shared_bytes }
    }

    fn scratch<G: Group>(&self, rig: &Rig, blocks: u32, chain: u32) -> Lease {
        let pieces = self.kept * G::COORDINATE_BYTES / PIECE;
        let threads = (blocks * self.threads) as usize;
        rig.memory::<[u8; PIECE]>(pieces * chain as usize * threads)
    }

    fn figure<G: Group>(&self, mode: &'static str, n: usize, what: String) -> Figure<'_> {
        let op = if G::NAME == "g1" { "g1_add_batched_affine" } else { "g2_add_batched_affine" };
        let how = format!("{} {what}, {} threads", self.name, self.threads);
        Figure { op, mode, count: n as u64, times: Vec::new(), unit: "G/s", how }
    }
}

/// How many sums: enough for several chains a thread.
fn count(rig: &Rig, threads: u32) -> usize {
    rig.size((rig.blocks(threads) * 512) as usize, 3000)
}

/// Neighbours: every input and output streams.
pub fn sequential<'k, G: Group>(
    rig: &Rig,
    points: &Points<G>,
    kernel: &'k Kernel,
) -> Vec<Figure<'k>> {
    type Parameters = (Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u8>, u32, u32, u32);
    let n = count(rig, kernel.threads) / (G::COORDINATE_BYTES / 48);
    let compiled = rig.kernel::<Parameters>(MODULE, kernel.name, kernel.block::<G>());
    // So far apart that a sum of one is no sum of another.
    let shift = points.affine.len() / 3;
    let (a, b) = (points.table(rig, n, 0), points.table(rig, n, shift));
    let out = rig.memory::<G::Words>(n);
    let blocks = rig.size(rig.blocks(1), 2);
    let figure = |&chain: &u32| {
        let scratch = kernel.scratch::<G>(rig, blocks, chain);
        let given = (out.all(), scratch.all(), a.all(), b.all(), 1, n as u32, chain);
        let times = rig.times(|| compiled.launch(&rig.stream, blocks, given));
        check::<G>(rig, &out, n, |i| points.at(i) + points.at(shift + i), kernel.name);
        Figure { times, ..kernel.figure::<G>("device", n, format!("chains of {chain}")) }
    };
    CHAINS.iter().map(figure).collect()
}

/// A table as the gathering kernels see it.
pub struct Table<'l> {
    x: Span<'l, u8>,
    y: Span<'l, u8>,
    /// Bytes from one coordinate to the next one's.
    stride: usize,
    what: &'static str,
}

impl<'l> Table<'l> {
    /// Points as they are, x and y beside each other.
    pub fn whole<G: Group>(lease: &'l Lease) -> Self {
        let x = lease.all::<u8>();
        let y = x.part(G::COORDINATE_BYTES, x.len() - G::COORDINATE_BYTES).expect("inside");
        Self { x, y, stride: size_of::<G::Words>(), what: "x beside y" }
    }

    /// What [`Points::split`] gave.
    pub fn split([x, y]: &'l [Lease; 2]) -> Self {
        Self { x: x.all(), y: y.all(), stride: SPLIT_BYTES, what: "x and y apart" }
    }
}

/// Sums of random pairs of a table of `size` points.
pub fn gathered<G: Group>(
    rig: &Rig,
    points: &Points<G>,
    table: &Table<'_>,
    size: usize,
) -> Vec<Figure<'static>> {
    type Parameters = (Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<[u32; 2]>, u32, u32, u32);
    let mut figures = Vec::new();
    let mut random = Random(7);
    let n = count(rig, GATHERED[0].threads);
    let mut reference = || random.below(size) as u32 | (random.next() as u32 & SIGN);
    let pairs: Vec<[u32; 2]> = (0..n).map(|_| [reference(), reference()]).collect();
    let references = rig.memory_of(&pairs);
    let out = rig.memory::<G::Words>(n);
    let blocks = rig.size(rig.blocks(1), 2);
    let &Table { x, y, stride, what } = table;
    for kernel in &GATHERED {
        let compiled = rig.kernel::<Parameters>(MODULE, kernel.name, kernel.block::<G>());
        for chain in CHAINS {
            let scratch = kernel.scratch::<G>(rig, blocks, chain);
            let (scratch, pairs_on) = (scratch.all(), references.all());
            let given = (out.all(), scratch, x, y, pairs_on, stride as u32, n as u32, chain);
            let times = rig.times(|| compiled.launch(&rig.stream, blocks, given));
            let expected = |i: usize| {
                let [first, second] = pairs[i].map(|reference| signed(points, reference));
                first + second
            };
            check::<G>(rig, &out, n, expected, kernel.name);
            let what = format!("chains of {chain}, {what}, {:.1} GB", x.len() as f64 / 1e9);
            let figure = kernel.figure::<G>("gathered", n, what);
            figures.push(Figure { times, ..figure });
        }
    }
    figures
}

/// The point that a reference names, as a sum.
pub fn signed<G: Group>(points: &Points<G>, reference: u32) -> G {
    let point: G = points.at((reference & !SIGN) as usize).into();
    if reference & SIGN == 0 { point } else { -point }
}

/// Compares samples, the first and the last among them.
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
