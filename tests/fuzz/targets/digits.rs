//! Files of digits of integers.

use std::str;

use capstan::{
    cli::integers::digits::{DigitRadix, integer, limbs, parse, write},
    client::BigUint,
};

use super::{SECRET, assert_harmless};
use crate::driver::{SMALL, Target};

/// An integer is what another library reads, is not changed by its limbs, and is written as a file
/// that is read as the same integer.
fn check(input: &[u8]) {
    let read = match parse(input) {
        Ok(read) => read,
        Err(error) => return assert_harmless(&error),
    };
    let text = str::from_utf8(input.trim_ascii_end()).expect("digits");
    let expected = match read.radix {
        DigitRadix::Decimal => BigUint::parse_bytes(text.as_bytes(), 10),
        DigitRadix::Hexadecimal => BigUint::parse_bytes(&text.as_bytes()[2..], 16),
    };
    let limbs = limbs(&read.value);
    assert_eq!(Some(BigUint::from_slice(&limbs)), expected);
    assert!(limbs.len() == 1 || limbs.last() != Some(&0), "a limb too many");
    assert_eq!(*integer(&limbs), *read.value);
    let written = write(&read.value, read.radix);
    let again = parse(written.as_bytes()).expect("a written file");
    assert!(*again.value == *read.value && again.radix == read.radix);
}

#[test]
fn digits() {
    let decimal = "90071992547409929007199254740993".repeat(3);
    let seeds = vec![
        b"0\n".to_vec(),
        format!("{decimal} \r\n").into_bytes(),
        format!("0x{decimal}fFeD\n").into_bytes(),
        b"0X00ffffffffffffffff".to_vec(),
        b"12\n34".to_vec(),
        SECRET.into(),
    ];
    let words = &["0x", "0X", "-", "+", "_", " ", "\n", "00000000", "ffffffff", "\u{a0}", SECRET];
    Target { name: "digits", seeds, words, check, cases: 20_000, memory: SMALL }.run();
}
