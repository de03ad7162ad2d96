//! Scalars as text: round trips and errors.

use ark_ff::{BigInteger, Field, PrimeField, UniformRand};
use ark_std::test_rng;

use capstan::{
    curve::Fr,
    formats::scalars::{Notation, parse, reverse_scalars, to_text},
};

fn bytes(value: Fr) -> Vec<u8> {
    value.into_bigint().to_bytes_le()
}

fn message(radix: Notation, text: &str) -> String {
    parse(radix, text, false).unwrap_err().to_string()
}

#[test]
fn written_scalars_parse_to_the_same_values() {
    let mut rng = test_rng();
    let values: Vec<_> =
        [0_u64, 1, 2].map(Fr::from).into_iter().chain([-Fr::from(1), Fr::rand(&mut rng)]).collect();
    let canonical: Vec<_> = values.iter().flat_map(|&value| bytes(value)).collect();
    for radix in [Notation::Hex, Notation::Decimal] {
        let text = to_text(radix, &canonical);
        assert_eq!(text.lines().count(), values.len());
        assert_eq!(*parse(radix, &text, false).unwrap(), canonical);
    }
    assert_eq!(*parse(Notation::Decimal, "-1 -0\n-7", false).unwrap(), {
        [bytes(-Fr::from(1)), bytes(Fr::from(0)), bytes(-Fr::from(7))].concat()
    });
    // Digit groups that are full, empty, or end in zeros.
    let ten = Fr::from(10);
    for power in [1, 18, 19, 20, 38, 57, 76].map(|exponent| ten.pow([exponent])) {
        for value in [power - Fr::from(1), power, power + Fr::from(1)] {
            let text = to_text(Notation::Decimal, &bytes(value));
            assert_eq!(text.trim_end(), value.to_string());
        }
    }
}

#[test]
fn errors_name_the_index_and_not_the_value() {
    let r = Fr::MODULUS.to_string();
    let over = "scalars[1]: not less than r (--reduce reduces it modulo r)";
    assert_eq!(message(Notation::Decimal, &format!("1\n{r}")), over);
    assert_eq!(message(Notation::Hex, &format!("1\n{}", "f".repeat(64))), over);
    assert_eq!(message(Notation::Hex, "12 0x3g"), "scalars[1]: expected 1 to 64 hex digits");
    assert_eq!(message(Notation::Hex, &"0".repeat(65)), "scalars[0]: expected 1 to 64 hex digits");
    assert_eq!(message(Notation::Decimal, "1.5"), "scalars[0]: expected decimal digits");
    assert_eq!(message(Notation::Decimal, &format!("-{r}")), "scalars[0]: not greater than -r");
    assert_eq!(message(Notation::Decimal, &"9".repeat(78)), "scalars[0]: does not fit 256 bits");
    let reduced = parse(Notation::Hex, &"f".repeat(64), true).unwrap();
    assert_eq!(*reduced, [0xff; 32]);
}

#[test]
fn swaps_the_bytes_of_each_scalar() {
    let mut two = [[1_u8; 32], [2; 32]].concat();
    two[0] = 9;
    reverse_scalars(&mut two).unwrap();
    assert_eq!((two[0], two[31], two[32]), (1, 9, 2));
    assert!(reverse_scalars(&mut two[..33]).is_err());
}
