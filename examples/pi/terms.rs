//! The sums of the leaves: P, Q and T of a few terms of the series, on the client.

use std::ops::Range;

use super::bounds::{A_FIRST, A_STEP, Q_FACTOR, TermLimbs};

/// 29^3 divides `Q_FACTOR`, and makes two factors of q(k) that are below 2^64 for k below 2.7e7.
const Q_SMALL_FACTOR: u64 = 29 * 29 * 29;

/// P, Q and T of a range of terms, as `bounds` defines them: words of 64 bits, the lowest first.
#[derive(Default)]
pub struct TermSums {
    p: Vec<u64>,
    q: Vec<u64>,
    t: Vec<u64>,
}

impl TermSums {
    /// Computes the sums of a range of terms, one after another: leaves are too short for binary
    /// splitting.
    pub fn compute(&mut self, terms: Range<u64>) {
        for (words, one) in [(&mut self.p, 1), (&mut self.q, 1), (&mut self.t, 0)] {
            words.clear();
            words.push(one);
        }
        let first = terms.start;
        for k in terms {
            if k > 0 {
                for factor in [(6 * k - 5) * (2 * k - 1), 6 * k - 1] {
                    multiply(&mut self.p, factor);
                }
                for factor in [k * k * Q_SMALL_FACTOR, k * (Q_FACTOR / Q_SMALL_FACTOR)] {
                    multiply(&mut self.q, factor);
                    multiply(&mut self.t, factor);
                }
            }
            let a = A_FIRST + A_STEP * k;
            match (k - first).is_multiple_of(2) {
                true => add_multiple(&mut self.t, &self.p, a),
                false => subtract_multiple(&mut self.t, &self.p, a),
            }
        }
    }

    /// Writes P, Q and T, one after another, each with its number of limbs.
    pub fn write(&self, limbs: TermLimbs, row: &mut [u8]) {
        let (p, rest) = row.split_at_mut(4 * limbs.p as usize);
        let (q, t) = rest.split_at_mut(4 * limbs.q as usize);
        for (words, bytes) in [(&self.p, p), (&self.q, q), (&self.t, t)] {
            let used = words.iter().rposition(|word| *word > 0).map_or(0, |last| last + 1);
            for (index, word) in words[..used].iter().enumerate() {
                let end = bytes.len().min(8 * (index + 1));
                let bytes = &mut bytes[8 * index..end];
                bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
            }
        }
    }
}

fn multiply(words: &mut Vec<u64>, factor: u64) {
    let mut carry = 0;
    for word in &mut *words {
        let product = wide(*word, factor) + u128::from(carry);
        (*word, carry) = (product as u64, (product >> 64) as u64);
    }
    if carry > 0 {
        words.push(carry);
    }
}

fn add_multiple(sum: &mut Vec<u64>, words: &[u64], factor: u64) {
    if sum.len() <= words.len() {
        sum.resize(words.len() + 1, 0);
    }
    let mut carry = 0;
    for (index, to) in sum.iter_mut().enumerate() {
        if index >= words.len() && carry == 0 {
            return;
        }
        let word = words.get(index).copied().unwrap_or(0);
        let total = wide(word, factor) + u128::from(*to) + u128::from(carry);
        (*to, carry) = (total as u64, (total >> 64) as u64);
    }
    if carry > 0 {
        sum.push(carry);
    }
}

/// The difference is not negative: the series alternates, and its terms decrease.
fn subtract_multiple(sum: &mut [u64], words: &[u64], factor: u64) {
    let mut borrow = 0;
    for (index, from) in sum.iter_mut().enumerate() {
        if index >= words.len() && borrow == 0 {
            return;
        }
        let word = words.get(index).copied().unwrap_or(0);
        let product = wide(word, factor) + u128::from(borrow);
        let (difference, wraps) = from.overflowing_sub(product as u64);
        (*from, borrow) = (difference, (product >> 64) as u64 + u64::from(wraps));
    }
}

fn wide(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}
