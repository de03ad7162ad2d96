//! Field arithmetic: chains of dependent operations, with a few blocks of 128 threads per
//! multiprocessor, so that only arithmetic counts. See `kernels/bench/field.cu`.

use ark_bls12_381::{Fq, Fr};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, FftField, Field as _, PrimeField};
use bytemuck::Pod;
use capstan::device::{BlockShape, DevicePtr};

use crate::{
    record::{RateFigure, Record},
    rig::{BenchRig, Random},
};

const MODULE: &str = "bench/field";
const BLOCK: BlockShape = BlockShape::threads(128);
/// Blocks per multiprocessor that are tried.
const OCCUPANCIES: [u32; 4] = [2, 4, 6, 8];

/// A kernel and the step of its chains. The device holds elements in Montgomery form.
struct Chain<F> {
    op: &'static str,
    mode: &'static str,
    kernel: &'static str,
    /// Whether other kernels use this variant: only then is it recorded.
    is_recorded: bool,
    /// Steps per iteration of the kernel's loop.
    steps: u32,
    /// Elements that follow those of the threads.
    more: fn() -> Vec<F>,
    step: fn(F, F) -> F,
}

const fn chain<F>(op: &'static str, kernel: &'static str, step: fn(F, F) -> F) -> Chain<F> {
    Chain { op, mode: "device", kernel, is_recorded: true, steps: 4, more: Vec::new, step }
}

const fn variant<F>(kernel: &'static str, step: fn(F, F) -> F) -> Chain<F> {
    Chain { is_recorded: false, ..chain("variant", kernel, step) }
}

const FP: [Chain<Fq>; 5] = [
    // The variant that additions of points use.
    chain("fp_mul", "bench_fp_mul_karatsuba", |x, y| x * y),
    variant("bench_fp_mul", |x, y| x * y),
    chain("fp_sqr", "bench_fp_sqr", |x, _| x * x),
    variant("bench_fp_mul_add_mul", |x, y| (x * y).double()),
    Chain {
        op: "fp_inverse",
        is_recorded: true,
        steps: 1,
        ..variant("bench_fp_inverse", |x: Fq, y| x.inverse().unwrap_or_default() + y)
    },
];

const FR: [Chain<Fr>; 5] = [
    chain("fr_mul", "bench_fr_mul", |x, y| x * y),
    variant("bench_fr_sqr", |x, _| x * x),
    Chain { more: || multiples(2), ..constant("k2", "bench_fr_mul_constant_k2") },
    Chain { more: || multiples(4), ..constant("k4", "bench_fr_mul_constant_k4") },
    // The factor is a constant of the kernel: a 16th root of unity, a twiddle of small butterflies.
    constant("k8", "bench_fr_mul_constant_k8"),
];

const fn constant(mode: &'static str, kernel: &'static str) -> Chain<Fr> {
    Chain { mode, ..chain("fr_mul_constant", kernel, |x, _| x * root()) }
}

/// The factor of products by a constant.
fn root() -> Fr {
    Fr::get_root_of_unity(16).expect("16 divides r - 1")
}

/// The precomputed multiples 2^(32 (N + L k)) w for k < K, L = 8 / K, N = L + 1: see
/// `kernels/field/fr.cuh`. Returned as the elements whose Montgomery form these integers are.
fn multiples(count: u64) -> Vec<Fr> {
    let (pieces, steps) = (8 / count, 8 / count + 1);
    let shifted = |k: u64| root() * Fr::from(2).pow([32 * (steps + pieces * k)]);
    (0..count).map(|k| Fr::new_unchecked(shifted(k).into_bigint())).collect()
}

/// Measures every kernel at several occupancies and keeps the best.
pub fn measure(rig: &BenchRig, record: &mut Record) {
    FP.iter().for_each(|chain| run::<Fq, 12>(rig, record, chain));
    FR.iter().for_each(|chain| run::<Fr, 8>(rig, record, chain));
}

fn run<F: Limbs<LIMBS>, const LIMBS: usize>(rig: &BenchRig, record: &mut Record, chain: &Chain<F>)
where
    [u32; LIMBS]: Pod,
{
    let kernel = rig.kernel::<(DevicePtr<u32>, DevicePtr<u32>, u32)>(MODULE, chain.kernel, BLOCK);
    let turns = rig.size(4096 / if chain.steps == 1 { 128 } else { 1 }, 3);
    let mut figures = Vec::new();
    for times in OCCUPANCIES {
        let blocks = rig.size(rig.blocks(times), times);
        let threads = (blocks * BLOCK.threads) as usize;
        let mut random = Random(1);
        let mut element = || std::array::from_fn(|_| random.next() as u32);
        let mut given: Vec<F> = (0..2 * threads).map(|_| F::below(element())).collect();
        let more = (chain.more)();
        if !more.is_empty() {
            given.truncate(threads);
        }
        given.extend(more);
        let limbs: Vec<[u32; LIMBS]> = given.iter().map(F::limbs).collect();
        let (input, output) = (rig.upload_new(&limbs), rig.lease::<[u32; LIMBS]>(threads));
        let spans = (input.all(), output.all(), turns);
        let runs = rig.times(|| kernel.launch(&rig.stream, blocks, spans));
        let found = rig.get::<[u32; LIMBS]>(output.all());
        for sample in [0, threads / 2, threads - 1] {
            let y = given.get(threads + sample).copied().unwrap_or(given[0]);
            let last = (0..turns * chain.steps).fold(given[sample], |x, _| (chain.step)(x, y));
            assert_eq!(F::of(&found[sample]), last, "{} of thread {sample}", chain.kernel);
        }
        figures.push(RateFigure {
            op: chain.op,
            mode: chain.mode,
            count: threads as u64 * u64::from(turns * chain.steps),
            times: runs,
            unit: "G/s",
            details: format!("{} {times} x 128 threads", chain.kernel),
        });
    }
    match chain.is_recorded {
        true => record.record_best(figures),
        false => record.print_best(&figures),
    }
}

/// Conversion between arkworks' elements and limbs of the Montgomery form.
trait Limbs<const LIMBS: usize>: Copy + PartialEq + std::fmt::Debug {
    /// The limbs of the canonical Montgomery form.
    fn limbs(&self) -> [u32; LIMBS];
    /// Reads limbs that may exceed the canonical form by a few times the modulus.
    fn of(limbs: &[u32; LIMBS]) -> Self;
    /// An element made from random limbs.
    fn below(mut limbs: [u32; LIMBS]) -> Self {
        // Below 2^380 and 2^254; `of` makes it canonical.
        limbs[LIMBS - 1] >>= if LIMBS == 12 { 4 } else { 2 };
        Self::of(&limbs)
    }
}

macro_rules! limbs {
    ($field:ty, $limbs:literal) => {
        impl Limbs<$limbs> for $field {
            fn limbs(&self) -> [u32; $limbs] {
                std::array::from_fn(|i| (self.0.0[i / 2] >> (i % 2 * 32)) as u32)
            }

            fn of(limbs: &[u32; $limbs]) -> Self {
                let word = |i: usize| u64::from(limbs[2 * i]) | u64::from(limbs[2 * i + 1]) << 32;
                let mut value = BigInt::<{ $limbs / 2 }>(std::array::from_fn(word));
                while value >= <$field>::MODULUS {
                    value.sub_with_borrow(&<$field>::MODULUS);
                }
                <$field>::new_unchecked(value)
            }
        }
    };
}

limbs!(Fq, 12);
limbs!(Fr, 8);
