//! The digits of the chunks, on all cores of the client.

use rayon::prelude::*;

use super::{Outcome, sizes::limbs_of_power};

/// Digits of a power of ten that fits into a word.
const WORD_DIGITS: usize = 19;
/// Words that are kept below those of the remaining digits. What is dropped below them adds at most
/// 300 units of 2^-128 to the error of the rest.
const GUARD_WORDS: u64 = 2;

/// 5^exponent, in limbs of 4 bytes.
pub fn power_of_five(exponent: u64) -> Vec<u8> {
    let limbs = limbs_of_power(5, exponent) as usize;
    let mut words = vec![0_u64; limbs.div_ceil(2)];
    words[0] = 1;
    for _ in 0..exponent {
        multiply(&mut words, 5);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(4 * limbs);
    bytes
}

/// The digits of all chunks, `chunk_digits` each, as text. `limbs` has their fractions, one after
/// another.
///
/// Errors: if what is left of a fraction after its digits is so close to 0 or 1 that its error may
/// change them.
pub fn digits(limbs: &[u8], chunks: usize, chunk_digits: usize) -> Outcome<Vec<u8>> {
    let mut text = vec![b'0'; chunks * chunk_digits];
    let rows = limbs.par_chunks(limbs.len() / chunks);
    let converted = text.par_chunks_mut(chunk_digits).zip(rows);
    let is_certain = |(text, row): (&mut [u8], &[u8])| write_digits(row, text);
    match converted.map(is_certain).reduce(|| true, |a, b| a && b) {
        true => Ok(text),
        false => Err("only zeros or nines follow the digits of a chunk, so that they are not \
                      certain; use another number of digits"
            .into()),
    }
}

/// Multiplies a fraction by powers of ten, whose integer parts are its digits. Returns whether they
/// are certain: a fraction has an error below 2^-64 after its digits.
fn write_digits(limbs: &[u8], text: &mut [u8]) -> bool {
    let mut words = words(limbs);
    let (all, mut remaining, mut first) = (words.len(), text.len(), 0);
    for group in text.chunks_mut(WORD_DIGITS) {
        let mut digits = multiply(&mut words[first..], 10_u64.pow(group.len() as u32));
        for digit in group.iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        remaining -= group.len();
        let needed = limbs_of_power(10, remaining as u64).div_ceil(2) + GUARD_WORDS;
        first = all.saturating_sub(needed as usize);
    }
    let rest = words[all - 1];
    rest != 0 && rest != u64::MAX
}

/// The words of a fraction: the highest limb is the upper half of the last word.
fn words(limbs: &[u8]) -> Vec<u64> {
    let (lowest, pairs) = limbs.split_at(limbs.len() % 8);
    let mut words = Vec::with_capacity(pairs.len() / 8 + 1);
    if let Ok(limb) = lowest.try_into() {
        words.push(u64::from(u32::from_le_bytes(limb)) << 32);
    }
    words.extend(pairs.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
    words
}

/// Multiplies and returns the word above the highest.
fn multiply(words: &mut [u64], factor: u64) -> u64 {
    let mut carry = 0;
    for word in words {
        let product = u128::from(*word) * u128::from(factor) + u128::from(carry);
        (*word, carry) = (product as u64, (product >> 64) as u64);
    }
    carry
}
