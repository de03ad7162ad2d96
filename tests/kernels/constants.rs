//! The text of `kernels/params/bls12_381.cuh` against arkworks.

use ark_bls12_381::{Fq, Fr};
use ark_ff::{BigInt, BigInteger, Field, PrimeField};
use std::collections::BTreeMap;

use crate::elements::KernelElement;

const TEXT: &str = include_str!("../../kernels/params/bls12_381.cuh");

/// The definitions of the header: numbers by name.
fn definitions() -> BTreeMap<String, Vec<u32>> {
    let code: String =
        TEXT.lines().filter(|line| !line.starts_with("//")).collect::<Vec<_>>().join(" ");
    let mut found = BTreeMap::new();
    for statement in code.split(';').filter(|statement| statement.contains('=')) {
        let (left, right) = statement.split_once('=').unwrap();
        let name = left.split('[').next().unwrap().split_whitespace().last().unwrap();
        let words = right.split(|c: char| !c.is_ascii_alphanumeric());
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits.trim_end_matches('u'), 16).unwrap(),
            None => word.parse().unwrap(),
        };
        found.insert(name.to_owned(), words.filter(|word| !word.is_empty()).map(number).collect());
    }
    found
}

fn words(limbs: &[u64]) -> Vec<u32> {
    limbs.iter().flat_map(|limb| [*limb as u32, (limb >> 32) as u32]).collect()
}

/// The constants that both fields have.
fn expected<F: KernelElement + PrimeField<BigInt = BigInt<N>>, const N: usize>(
    prefix: &str,
) -> BTreeMap<String, Vec<u32>> {
    let two = F::from(2_u64);
    let radix = two.pow([F::RADIX_BITS]);
    // The integer of a value: the Montgomery form of value / R.
    let plain = |value: F| words(&value.into_bigint().0);
    let mut multiple = F::MODULUS;
    let mut multiples = words(&multiple.0);
    while !multiple.add_with_carry(&F::MODULUS) {
        multiples.extend(words(&multiple.0));
    }
    let modulus = words(&F::MODULUS.0)[0];
    let inverse =
        (0..5).fold(1_u32, |x, _| x.wrapping_mul(2_u32.wrapping_sub(modulus.wrapping_mul(x))));
    let rounds = (2 * u64::from(F::MODULUS_BIT_SIZE) - 1).div_ceil(30);
    let scale = (0..=rounds).flat_map(|n| plain(two.pow([2 * n]) * radix.pow([3])));
    [
        ("MULTIPLES", multiples),
        ("ONE", plain(radix)),
        ("RADIX_SQUARED", plain(radix * radix)),
        ("INVERSE_NEG", vec![inverse.wrapping_neg()]),
        ("GCD_ROUNDS_MAX", vec![rounds as u32]),
        ("GCD_SCALE", scale.collect()),
    ]
    .map(|(name, numbers)| (format!("{prefix}_{name}"), numbers))
    .into()
}

#[test]
fn constants_match_arkworks() {
    let mut all = expected::<Fq, 6>("FP");
    all.append(&mut expected::<Fr, 4>("FR"));
    let word = Fq::from(2_u64).pow([32]).inverse().unwrap();
    all.insert("FP_WORD_INVERSE".into(), words(&word.into_bigint().0));
    all.insert("GCD_STEPS".into(), vec![30]);
    let found = definitions();
    assert_eq!(found.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    for (name, numbers) in &all {
        assert_eq!(&found[name], numbers, "{name}");
    }
}
