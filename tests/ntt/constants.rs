//! The text of `kernels/params/roots.cuh` against arkworks.

use ark_bls12_381::Fr;
use ark_ff::{FftField, Field, PrimeField};

const TEXT: &str = include_str!("../../kernels/params/roots.cuh");

#[test]
fn roots_match_arkworks() {
    let words = TEXT.split(|c: char| !c.is_ascii_alphanumeric());
    let found: Vec<u32> =
        words.filter_map(|w| u32::from_str_radix(w.strip_prefix("0x")?, 16).ok()).collect();
    let root = Fr::get_root_of_unity(8).unwrap();
    let mut expected = Vec::new();
    for exponent in 1..4_u64 {
        for shift in 0..8 {
            let multiple = root.pow([exponent]) * Fr::from(2_u64).pow([32 * (2 + shift)]);
            let limbs = multiple.into_bigint().0;
            expected.extend(limbs.iter().flat_map(|limb| [*limb as u32, (limb >> 32) as u32]));
        }
    }
    assert_eq!(found, expected);
}
