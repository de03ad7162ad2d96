//! Scalars: round trips, refusals, reduction, narrow encodings.

use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, PrimeField, UniformRand};
use ark_serialize::CanonicalSerialize;
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};
use capstan::{
    curve::{
        Fr,
        points::BadElement,
        scalars::{ScalarEncoding, Scalars, decode_fr, encode_fr},
    },
    error::FieldProblem,
};
use proptest::prelude::*;
use zeroize::Zeroizing;

fn le(value: BigInt<4>) -> [u8; 32] {
    value.to_bytes_le().try_into().unwrap()
}

/// r + `more`, as an integer.
fn r_plus(more: u64) -> BigInt<4> {
    let mut value = Fr::MODULUS;
    assert!(!value.add_with_carry(&BigInt::from(more)));
    value
}

const FULL: [ScalarEncoding; 2] = [ScalarEncoding::Canonical, ScalarEncoding::Montgomery];

fn scalars(encoding: ScalarEncoding, bytes: Vec<u8>, reduce: bool) -> Result<Scalars, BadElement> {
    Scalars::decode(encoding, Zeroizing::new(bytes), reduce)
}

#[test]
fn elements_round_trip() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut values: Vec<Fr> = (0..10_000).map(|_| Fr::rand(&mut rng)).collect();
    values.extend([Fr::ZERO, Fr::ONE, -Fr::ONE, -Fr::from(2)]);
    let mut oracle = Vec::new();
    for value in &values {
        value.serialize_compressed(&mut oracle).unwrap();
    }
    for encoding in FULL {
        let mut bytes = vec![0; values.len() * 32];
        encode_fr(encoding, &values, &mut bytes);
        if encoding == ScalarEncoding::Canonical {
            assert_eq!(bytes, oracle);
        }
        let mut back = vec![Fr::ZERO; values.len()];
        decode_fr(encoding, &bytes, false, &mut back).unwrap();
        assert_eq!(back, values);
        let decoded = scalars(encoding, bytes, false).unwrap();
        assert_eq!((decoded.len(), decoded.width()), (values.len(), 32));
        assert_eq!(decoded.magnitudes(), oracle);
        assert!(decoded.signs().is_none());
        assert_eq!(decoded.into_bytes().len(), oracle.len());
    }
}

#[test]
fn elements_above_r_are_refused_with_the_first_index_or_reduced() {
    let max = BigInt([u64::MAX; 4]);
    for encoding in FULL {
        for (bad, reduced) in [
            (r_plus(0), BigInt::zero()),
            (r_plus(1), BigInt::one()),
            (r_plus(u64::MAX), BigInt::from(u64::MAX)),
            (max, Fr::from_le_bytes_mod_order(&le(max)).into_bigint()),
        ] {
            for index in [0, 1, 4095, 4096, 9998] {
                let mut bytes = vec![0; 32 * 10_000];
                bytes[32 * index..][..32].copy_from_slice(&le(bad));
                bytes[32 * 9_999..].copy_from_slice(&le(bad));
                let problem = FieldProblem::NotCanonical;
                let expected = BadElement { index: index as u64, problem };
                assert_eq!(scalars(encoding, bytes.clone(), false).unwrap_err(), expected);
                let mut out = vec![Fr::ZERO; 10_000];
                assert_eq!(decode_fr(encoding, &bytes, false, &mut out).unwrap_err(), expected);
                let value = match encoding {
                    ScalarEncoding::Montgomery => Fr::new_unchecked(reduced),
                    _ => Fr::from(reduced),
                };
                decode_fr(encoding, &bytes, true, &mut out).unwrap();
                assert_eq!(out[index], value);
                let all = scalars(encoding, bytes, true).unwrap();
                assert_eq!(all.magnitudes()[32 * index..][..32], le(value.into_bigint()));
            }
        }
    }
}

#[test]
fn narrow_scalars_keep_their_values() {
    let mut rng = StdRng::seed_from_u64(5);
    for width in [1u8, 2, 4, 8, 16] {
        let shift = 128 - 8 * u32::from(width);
        let mut values: Vec<i128> = (0..5000).map(|_| rng.r#gen::<i128>() >> shift).collect();
        values.extend([0, 1, -1, i128::MIN >> shift, i128::MAX >> shift]);
        let mut bytes = Vec::new();
        for value in &values {
            bytes.extend(&value.to_le_bytes()[..width.into()]);
        }
        let signed = scalars(ScalarEncoding::Signed(width), bytes.clone(), false).unwrap();
        let signs = signed.signs().unwrap();
        for (i, value) in values.iter().enumerate() {
            assert_eq!(signs[i], *value < 0);
            let magnitude = &signed.magnitudes()[i * usize::from(width)..][..width.into()];
            assert_eq!(magnitude, &value.unsigned_abs().to_le_bytes()[..width.into()]);
        }
        let unsigned = scalars(ScalarEncoding::Unsigned(width), bytes.clone(), false).unwrap();
        assert_eq!(unsigned.magnitudes(), bytes);
        assert!(unsigned.signs().is_none());
        let positive = scalars(ScalarEncoding::Signed(width), vec![1; width.into()], false);
        assert!(positive.unwrap().signs().is_none());
        let narrow = decode_fr(ScalarEncoding::Unsigned(width), &[], false, &mut []);
        assert_eq!(narrow.unwrap_err().problem, FieldProblem::OutOfRange);
    }
}

#[test]
fn scalars_of_unknown_width_or_partial_length_are_refused() {
    for width in [0, 3, 32, 255] {
        for encoding in [ScalarEncoding::Unsigned(width), ScalarEncoding::Signed(width)] {
            let found = scalars(encoding, vec![0; 96], false).unwrap_err();
            assert_eq!(found, BadElement { index: 0, problem: FieldProblem::OutOfRange });
        }
    }
    let found = scalars(ScalarEncoding::Canonical, vec![0; 95], false).unwrap_err();
    let problem = FieldProblem::Length { expected: 96, got: 95 };
    assert_eq!(found, BadElement { index: 2, problem });
    assert!(scalars(ScalarEncoding::Canonical, vec![], false).unwrap().is_empty());
}

#[test]
fn debug_shows_no_scalars() {
    let secret = scalars(ScalarEncoding::Unsigned(1), vec![171; 3], false).unwrap();
    assert_eq!(format!("{secret:?}"), "Scalars(3 x 1 bytes)");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        width in any::<u8>(),
    ) {
        let narrow = [ScalarEncoding::Signed(width), ScalarEncoding::Unsigned(width)];
        let common = [1, 2, 4, 8, 16].map(ScalarEncoding::Signed);
        for encoding in FULL.into_iter().chain(narrow).chain(common) {
            for reduce in [false, true] {
                if let Ok(scalars) = scalars(encoding, bytes.clone(), reduce) {
                    prop_assert_eq!(scalars.len() * encoding.width(), bytes.len());
                }
            }
        }
    }
}
