//! Elements of fields of a prime below 2^31.

use capstan::{
    curve::scalars::{ElementCodec, ScalarEncoding},
    field::{Element31, Field31, Prime31},
};

use crate::driver::{SMALL, Target};

const ENCODINGS: [ScalarEncoding; 2] = [ScalarEncoding::Canonical31, ScalarEncoding::Montgomery31];

/// The first byte selects the prime, the second one the encoding and whether to reduce.
fn check_elements(input: &[u8]) {
    let [prime, selector, bytes @ ..] = input else { return };
    let field = Field31::new(Prime31::ALL[usize::from(*prime) % Prime31::ALL.len()]);
    let (encoding, reduce) = (ENCODINGS[usize::from(selector & 1)], selector & 2 != 0);
    let bytes = &bytes[..bytes.len() / 4 * 4];
    let p = u64::from(field.modulus());
    let words = || bytes.as_chunks().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    let mut elements = vec![Element31::default(); bytes.len() / 4];
    match field.decode(encoding, bytes, reduce, &mut elements) {
        Ok(()) => {
            for (word, element) in words().zip(&elements) {
                assert!(reduce || word < p, "not canonical");
                // 2^32 is the Montgomery factor.
                let factor = if encoding == ScalarEncoding::Montgomery31 { 1 << 32 } else { 1 };
                assert_eq!(u64::from(field.value(*element)) * (factor % p) % p, word % p);
            }
            let mut again = vec![0; bytes.len()];
            field.encode(encoding, &elements, &mut again);
            assert!(reduce || again == bytes, "two encodings of one element");
        }
        Err(bad) => {
            assert!(!reduce, "every integer can be reduced");
            assert_eq!(words().position(|word| word >= p), Some(bad.index as usize));
        }
    }
}

#[test]
fn elements31() {
    let words = [0, 1, 7_340_032, 7_340_033, 2_130_706_432, 2_130_706_433, u32::MAX];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let seeds = (0..7).flat_map(|prime| (0..4).map(move |selector| [prime, selector]));
    let seeds = seeds.map(|head| [&head[..], &bytes].concat()).collect();
    let name = "elements31";
    Target { name, seeds, words: &[], check: check_elements, cases: 20_000, memory: SMALL }.run();
}
