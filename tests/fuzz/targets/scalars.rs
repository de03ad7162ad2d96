//! Scalars, in every encoding and as text.

use ark_ff::PrimeField;
use capstan::{
    curve::{
        Fr,
        scalars::{ElementCodec, ScalarEncoding, Scalars, decode_fr, encode_fr},
    },
    field::{Gf2Words, IntegerLimbs},
    formats::scalars::{Notation, parse, to_text},
};
use zeroize::Zeroizing;

use super::{SECRET, assert_harmless};
use crate::{
    driver::{SMALL, Target},
    rig::messages,
};

const ENCODINGS: [ScalarEncoding; 16] = [
    ScalarEncoding::Canonical,
    ScalarEncoding::Montgomery,
    ScalarEncoding::Unsigned(1),
    ScalarEncoding::Unsigned(2),
    ScalarEncoding::Unsigned(4),
    ScalarEncoding::Unsigned(8),
    ScalarEncoding::Unsigned(16),
    ScalarEncoding::Signed(1),
    ScalarEncoding::Signed(2),
    ScalarEncoding::Signed(4),
    ScalarEncoding::Signed(8),
    ScalarEncoding::Signed(16),
    ScalarEncoding::Canonical31,
    ScalarEncoding::Montgomery31,
    ScalarEncoding::PackedBits64,
    ScalarEncoding::Limbs32,
];

/// The first byte selects the encoding, the second one whether to reduce.
fn check_scalars(input: &[u8]) {
    let [selector, reduce, bytes @ ..] = input else { return };
    let (encoding, reduce) = (ENCODINGS[usize::from(*selector) % 16], reduce & 1 == 1);
    let width = encoding.width();
    match Scalars::decode(encoding, Zeroizing::new(bytes.to_vec()), reduce) {
        Ok(scalars) => {
            assert_eq!(scalars.len() * width, bytes.len());
            let elements = bytes.chunks_exact(width);
            for (i, (magnitude, element)) in
                scalars.magnitudes().chunks_exact(width).zip(elements).enumerate()
            {
                let is_negative = scalars.signs().is_some_and(|signs| signs[i]);
                let got = Fr::from_le_bytes_mod_order(magnitude);
                let got = if is_negative { -got } else { got };
                assert_eq!(got, expected(encoding, element), "element {i} of {encoding:?}");
                assert!(width < 32 || magnitude == to_canonical(got), "not below r");
            }
        }
        Err(bad) => assert!(bad.index <= (bytes.len() / width) as u64),
    }
    if encoding.is_full() && bytes.len().is_multiple_of(32) {
        check_elements(encoding, bytes, reduce);
    }
}

fn check_elements(encoding: ScalarEncoding, bytes: &[u8], reduce: bool) {
    let mut elements = vec![Fr::default(); bytes.len() / 32];
    if decode_fr(encoding, bytes, reduce, &mut elements).is_err() {
        assert!(!reduce, "every integer can be reduced");
        return;
    }
    for (element, bytes) in elements.iter().zip(bytes.chunks_exact(32)) {
        assert!(element.0 < Fr::MODULUS, "not reduced");
        assert_eq!(*element, expected(encoding, bytes));
    }
    let mut again = vec![0; bytes.len()];
    encode_fr(encoding, &elements, &mut again);
    assert!(reduce || again == bytes, "two encodings of one element");
}

fn to_canonical(element: Fr) -> [u8; 32] {
    messages::canonical(&[element])[..].try_into().expect("32 bytes")
}

/// What an element means, by arithmetic that decoding does not use.
fn expected(encoding: ScalarEncoding, element: &[u8]) -> Fr {
    let value = Fr::from_le_bytes_mod_order(element);
    match encoding {
        ScalarEncoding::Canonical | ScalarEncoding::Unsigned(_) => value,
        // 2^256 is the Montgomery factor.
        ScalarEncoding::Montgomery => value / power_of_two(256),
        ScalarEncoding::Signed(_) if element[element.len() - 1] & 0x80 == 0 => value,
        ScalarEncoding::Signed(_) => value - power_of_two(8 * element.len()),
        ScalarEncoding::Canonical31
        | ScalarEncoding::Montgomery31
        | ScalarEncoding::PackedBits64
        | ScalarEncoding::Limbs32 => {
            unreachable!("no encoding of elements of Fr")
        }
    }
}

fn power_of_two(exponent: usize) -> Fr {
    (0..exponent).fold(Fr::from(1), |power, _| power + power)
}

#[test]
fn scalars() {
    let elements = messages::random(3);
    let mut full = vec![0; 96];
    let mut seeds = Vec::new();
    for (number, encoding) in ENCODINGS.iter().enumerate() {
        let bytes = if encoding.is_full() {
            encode_fr(*encoding, &elements, &mut full);
            full.clone()
        } else {
            (0..3 * encoding.width() as u8).map(|i| i.wrapping_mul(91)).collect()
        };
        seeds.extend([0, 1].map(|reduce| [vec![number as u8, reduce], bytes.clone()].concat()));
    }
    let name = "scalars";
    Target { name, seeds, words: &[], check: check_scalars, cases: 20_000, memory: SMALL }.run();
}

/// The words of a field whose words are all canonical, in an encoding: only its own holds them.
fn check_words<W: ElementCodec>(field: W, encoding: ScalarEncoding, bytes: &[u8])
where
    W::Element: Default + Copy,
{
    let width = size_of::<W::Element>();
    let bytes = &bytes[..bytes.len() / width * width];
    let mut words = vec![W::Element::default(); bytes.len() / width];
    let decoded = field.decode(encoding, bytes, false, &mut words);
    assert_eq!(decoded.is_ok(), encoding.holds(field.id()), "{encoding:?}");
    if decoded.is_ok() {
        assert_eq!(W::as_bytes(&words), bytes);
        let mut again = vec![0; bytes.len()];
        field.encode(encoding, &words, &mut again);
        assert_eq!(again, bytes);
    }
}

/// The first byte selects the encoding.
fn check_bits_and_limbs(input: &[u8]) {
    let Some((selector, bytes)) = input.split_first() else { return };
    let encoding = ENCODINGS[usize::from(*selector) % 16];
    check_words(Gf2Words, encoding, bytes);
    check_words(IntegerLimbs, encoding, bytes);
}

#[test]
fn bits_and_limbs() {
    let bytes: Vec<u8> = (0..24_u8).map(|i| i.wrapping_mul(91)).collect();
    let seeds = (0..16).map(|encoding| [&[encoding], &bytes[..]].concat()).collect();
    let (name, check) = ("bits_and_limbs", check_bits_and_limbs as fn(&[u8]));
    Target { name, seeds, words: &[], check, cases: 5_000, memory: SMALL }.run();
}

/// The first byte selects the notation, the second one whether to reduce.
fn check_text(input: &[u8]) {
    let [notation, reduce, text @ ..] = input else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let notation = if notation & 1 == 1 { Notation::Decimal } else { Notation::Hex };
    match parse(notation, text, reduce & 1 == 1) {
        Ok(bytes) => {
            assert_eq!(bytes.len(), 32 * text.split_ascii_whitespace().count());
            let again = parse(notation, &to_text(notation, &bytes), true);
            assert_eq!(*again.expect("text of scalars"), *bytes);
        }
        Err(error) => assert_harmless(&error),
    }
}

#[test]
fn scalars_as_text() {
    let elements = messages::canonical(&messages::random(2));
    let text = |notation| to_text(notation, &elements).to_string();
    let seed = |notation: u8, text: &str| [&[notation, 0], text.as_bytes()].concat();
    let seeds = vec![
        seed(0, &text(Notation::Hex)),
        seed(1, &text(Notation::Decimal)),
        seed(1, "0 1 -1\n-2\t7"),
        seed(0, &format!("0x1 {SECRET}")),
        seed(1, &format!("12 {SECRET}")),
    ];
    let words = &["0x", "-", "-0", " ", "\n", "\u{a0}", "00", SECRET];
    let name = "scalars_as_text";
    Target { name, seeds, words, check: check_text, cases: 20_000, memory: SMALL }.run();
}
