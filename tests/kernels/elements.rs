//! Field elements in the kernels' representation, and values that are likely to break arithmetic.

use ark_bls12_381::{Fq, Fq2, Fr};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// An element of a field of the kernels: one or two coordinates of 64-bit limbs.
pub trait KernelElement: Field {
    /// Suffix of the kernels' names.
    const NAME: &'static str;
    /// Number of 64-bit limbs.
    const LIMBS: usize;
    /// log2 of the radix of the Montgomery form.
    const RADIX_BITS: u64;

    /// The limbs of the Montgomery form, plus `multiple` times the modulus in each coordinate.
    fn limbs(&self, multiple: u64) -> Vec<u64>;
    /// The element with these Montgomery limbs; `None` if they are not canonical.
    fn from_limbs(limbs: &[u64]) -> Option<Self>;
    /// Edge values, random values, and values with unusual bit patterns.
    fn samples(rng: &mut StdRng) -> Vec<Self>;
}

macro_rules! prime {
    ($field:ident, $name:literal, $limbs:literal) => {
        impl KernelElement for $field {
            const NAME: &'static str = $name;
            const LIMBS: usize = $limbs;
            const RADIX_BITS: u64 = 64 * $limbs;

            fn limbs(&self, multiple: u64) -> Vec<u64> {
                let mut integer = self.0;
                for _ in 0..multiple {
                    assert!(!integer.add_with_carry(&Self::MODULUS), "fits in the limbs");
                }
                integer.0.to_vec()
            }

            fn from_limbs(limbs: &[u64]) -> Option<Self> {
                let integer = BigInt::<$limbs>(limbs.try_into().ok()?);
                (integer < Self::MODULUS).then(|| Self::new_unchecked(integer))
            }

            fn samples(rng: &mut StdRng) -> Vec<Self> {
                integers::<$limbs>(rng, Self::MODULUS)
                    .into_iter()
                    .map(Self::new_unchecked)
                    .collect()
            }
        }
    };
}

prime!(Fq, "fp", 6);
prime!(Fr, "fr", 4);

impl KernelElement for Fq2 {
    const NAME: &'static str = "fp2";
    const LIMBS: usize = 12;
    const RADIX_BITS: u64 = Fq::RADIX_BITS;

    fn limbs(&self, multiple: u64) -> Vec<u64> {
        [self.c0.limbs(multiple), self.c1.limbs(multiple)].concat()
    }

    fn from_limbs(limbs: &[u64]) -> Option<Self> {
        let (c0, c1) = limbs.split_at(Fq::LIMBS);
        Some(Self::new(Fq::from_limbs(c0)?, Fq::from_limbs(c1)?))
    }

    fn samples(rng: &mut StdRng) -> Vec<Self> {
        let coordinates = Fq::samples(rng);
        let mut pick = || coordinates[rng.random_range(0..coordinates.len())];
        let mut samples: Vec<_> =
            (0..coordinates.len()).map(|_| Self::new(pick(), pick())).collect();
        samples.extend([Self::ZERO, Self::ONE, -Self::ONE]);
        samples.extend([Self::new(Fq::ZERO, Fq::ONE), Self::new(Fq::ZERO, -Fq::ONE)]);
        samples
    }
}

/// Integers below `modulus`: next to 0, to the modulus, to its half and to powers of two; mostly
/// ones, mostly zeros, long runs of both; random ones.
fn integers<const N: usize>(rng: &mut StdRng, modulus: BigInt<N>) -> Vec<BigInt<N>> {
    let less = |mut integer: BigInt<N>, by: u64| {
        integer.sub_with_borrow(&BigInt::from(by));
        integer
    };
    let mut half = modulus;
    half.div2();
    let mut found: Vec<_> = (0..4).flat_map(|i| [BigInt::from(i), less(modulus, 1 + i)]).collect();
    found.extend([half, less(half, 1)]);
    for bits in (31..64 * N as u32 - 3).step_by(32).chain((32..64 * N as u32 - 3).step_by(32)) {
        let power = BigInt::<N>::from(1_u64) << bits;
        found.extend([power, less(power, 1), less(modulus, 1) ^ power]);
    }
    let bits = modulus.num_bits();
    for _ in 0..120 {
        let random = std::array::from_fn(|_| rng.random::<u64>());
        found.push(BigInt(random));
        // One bit in 64 differs from the others.
        let sparse = random.map(|_| 1_u64 << rng.random_range(0..64));
        found.extend([BigInt(sparse), BigInt(sparse.map(|limb| !limb))]);
        let (from, to) = (rng.random_range(0..bits), rng.random_range(0..bits));
        let run = (BigInt::from(1_u64) << from) ^ (BigInt::from(1_u64) << to);
        found.extend([less(run, 1), !less(run, 1)]);
        found.push(BigInt(random.map(|limb| if limb & 1 == 0 { 0 } else { u64::MAX })));
    }
    let top = (1_u64 << (bits % 64)) - 1;
    for integer in &mut found {
        integer.0[N - 1] &= top;
        if *integer >= modulus {
            integer.sub_with_borrow(&modulus);
        }
        assert!(*integer < modulus);
    }
    found
}

/// A generator with a fixed seed.
pub fn rng() -> StdRng {
    StdRng::seed_from_u64(0x5eed)
}

/// `count` random picks from the samples.
pub fn shuffled<E: KernelElement>(rng: &mut StdRng, count: usize) -> Vec<E> {
    let samples = E::samples(rng);
    (0..count).map(|_| samples[rng.random_range(0..samples.len())]).collect()
}
