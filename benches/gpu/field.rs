//! Products of field elements: chains of dependent products, a few blocks of 128 threads a
//! multiprocessor, so that only arithmetic counts.

use ark_bls12_381::{Fq, Fr};
use ark_ff::{BigInt, PrimeField};
use bytemuck::Pod;
use capstan::device::{Block, Ptr};

use crate::{
    record::{Figure, Record},
    rig::{Random, Rig},
};

const MODULE: &str = "bench/field";
const BLOCK: Block = Block::of(128);
/// Steps of a chain in one turn of a kernel's loop: see `kernels/bench/field.cu`.
const STEPS: u32 = 4;

/// A kernel, what it is recorded as, and the step it repeats, on integers in Montgomery form.
struct Product<F> {
    op: &'static str,
    mode: &'static str,
    kernel: &'static str,
    step: fn(F, F) -> F,
}

const FP: [Product<Fq>; 2] = [
    Product { op: "fp_mul", mode: "device", kernel: "bench_fp_mul", step: |x, y| x * y },
    Product { op: "fp_sqr", mode: "device", kernel: "bench_fp_sqr", step: |x, _| x * x },
];

const FR: [Product<Fr>; 1] =
    [Product { op: "fr_mul", mode: "device", kernel: "bench_fr_mul", step: |x, y| x * y }];

type Parameters = (Ptr<u32>, Ptr<u32>, u32);

/// Every kernel at several occupancies; the best counts.
pub fn measure(rig: &Rig, record: &mut Record) {
    FP.iter().for_each(|product| chain::<Fq, 12>(rig, record, product));
    FR.iter().for_each(|product| chain::<Fr, 8>(rig, record, product));
}

fn chain<F: Field, const LIMBS: usize>(rig: &Rig, record: &mut Record, product: &Product<F>)
where
    [u32; LIMBS]: Pod,
{
    let kernel = rig.kernel::<Parameters>(MODULE, product.kernel, BLOCK);
    let registers = kernel.registers().expect("a number");
    let turns = rig.size(4096, 3);
    let mut figures = Vec::new();
    for times in [2, 3, 4, 6] {
        let blocks = rig.size(rig.blocks(times), times);
        let threads = (blocks * BLOCK.threads) as usize;
        let mut random = Random(1);
        // Below 2^380 and 2^253: below the modulus.
        let limbs = |random: &mut Random| {
            let mut limbs = [0_u32; LIMBS];
            limbs.fill_with(|| random.next() as u32);
            limbs[LIMBS - 1] >>= if LIMBS == 12 { 4 } else { 3 };
            limbs
        };
        let given: Vec<_> = (0..2 * threads).map(|_| limbs(&mut random)).collect();
        let input = rig.memory_of(&given);
        let output = rig.memory::<[u32; LIMBS]>(threads);
        let spans = (input.all(), output.all(), turns);
        let runs = rig.times(|| kernel.launch(&rig.stream, blocks, spans));
        let found = rig.get::<[u32; LIMBS]>(output.all());
        for sample in [0, threads / 2, threads - 1] {
            let (mut x, y) = (F::of(&given[sample]), F::of(&given[threads + sample]));
            for _ in 0..turns * STEPS {
                x = (product.step)(x, y);
            }
            assert_eq!(F::of(&found[sample]), x, "{} of thread {sample}", product.kernel);
        }
        figures.push(Figure {
            op: product.op,
            mode: product.mode,
            count: threads as u64 * u64::from(turns * STEPS),
            times: runs,
            unit: "G/s",
            how: format!("{} {times} x 128 threads, {registers} registers", product.kernel),
        });
    }
    record.keep_best(figures);
}

/// A field of arkworks, read from limbs of the device.
trait Field: Copy + PartialEq + std::fmt::Debug {
    /// Limbs of a Montgomery form that is less than a few times the modulus.
    fn of(limbs: &[u32]) -> Self;
}

macro_rules! field {
    ($field:ty, $words:literal) => {
        impl Field for $field {
            fn of(limbs: &[u32]) -> Self {
                let word = |i: usize| u64::from(limbs[2 * i]) | u64::from(limbs[2 * i + 1]) << 32;
                let mut value = BigInt::<$words>(std::array::from_fn(word));
                while value >= <$field>::MODULUS {
                    ark_ff::BigInteger::sub_with_borrow(&mut value, &<$field>::MODULUS);
                }
                <$field>::new_unchecked(value)
            }
        }
    };
}

field!(Fq, 6);
field!(Fr, 4);
