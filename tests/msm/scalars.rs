//! Distributions of scalars: those of proofs, and edge cases.

use ark_bls12_381::Fr;
use ark_ff::{AdditiveGroup, Field, PrimeField};
use capstan::msm::RadixDigits;
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};

pub fn rng() -> StdRng {
    StdRng::seed_from_u64(11)
}

/// A distribution: its name, and scalar i.
pub type Distribution = (&'static str, fn(&mut StdRng, usize) -> Fr);

pub const DISTRIBUTIONS: [Distribution; 11] = [
    ("uniform", |rng, _| uniform(rng)),
    ("zeros", |_, _| Fr::ZERO),
    ("ones", |_, _| Fr::ONE),
    ("r - 1", |_, _| -Fr::ONE),
    ("equal", |_, _| Fr::from(7).inverse().unwrap()),
    ("one hot", |rng, i| if i % 97 == 5 { uniform(rng) } else { Fr::ZERO }),
    ("0, 1, -1", |rng, _| [Fr::ZERO, Fr::ONE, -Fr::ONE][rng.random_range(0..3)]),
    ("64 bits", |rng, _| Fr::from(rng.next_u64())),
    ("mostly 0 or 1", |rng, _| match rng.random_range(0..20) {
        0..9 => Fr::ZERO,
        9..18 => Fr::ONE,
        _ => uniform(rng),
    }),
    (
        "mostly one",
        |rng, i| if i % 10 == 9 { uniform(rng) } else { Fr::from(7).inverse().unwrap() },
    ),
    ("edges", |_, i| edges()[i % edges().len()]),
];

pub fn uniform(rng: &mut StdRng) -> Fr {
    Fr::from_le_bytes_mod_order(&std::array::from_fn::<u8, 48, _>(|_| rng.random()))
}

/// Values next to 0, to r / 2, to r, and to powers of two.
pub fn edges() -> Vec<Fr> {
    let half = Fr::from(2).inverse().unwrap();
    let mut all = vec![Fr::ZERO, Fr::ONE, -Fr::ONE, half, half - Fr::ONE, half + Fr::ONE];
    for i in 1..255 {
        let power = Fr::from(2).pow([i]);
        all.extend([power, power - Fr::ONE, power + Fr::ONE, -power]);
    }
    all
}

/// Scalars whose digits in a radix are at the ends of their range or next to 0.
pub fn of_digits(radix: &RadixDigits, rng: &mut StdRng, count: usize) -> Vec<Fr> {
    let (base, half) = (Fr::from(radix.radix()), i64::from(radix.buckets()));
    let kinds = [-half, 1 - half, half - 1, half, -1, 0, 1];
    let mut scalar = |few: bool| {
        let mut digit = |_| match few {
            true if rng.random_range(0..4) > 0 => Fr::ZERO,
            _ => Fr::from(kinds[rng.random_range(0..kinds.len())]),
        };
        let digits: Vec<Fr> = (0..radix.count).map(&mut digit).collect();
        digits.iter().fold(Fr::ZERO, |sum, digit| sum * base + digit)
    };
    (0..count).map(|i| scalar(i % 2 == 0)).collect()
}

/// The scalars as 32-bit words, least significant first, as kernels read them.
pub fn words(scalars: &[Fr]) -> Vec<[u32; 8]> {
    let split = |limb: u64| [limb as u32, (limb >> 32) as u32];
    let words = |scalar: &Fr| {
        let mut words = scalar.into_bigint().0.into_iter().flat_map(split);
        std::array::from_fn(|_| words.next().unwrap())
    };
    scalars.iter().map(words).collect()
}
