//! Upper bounds on the size of the products and sums of a range of terms.
//!
//! Term k of the series has the factors p(k) = (6k - 5)(2k - 1)(6k - 1), which is below 72 k^3, and
//! q(k) = k^3 640320^3 / 24; those of term 0 are 1. For a range of terms from a to b - 1, P and Q
//! are the products of all p and q, and T is the numerator of the alternating sum over Q, whose
//! first term is positive. The terms decrease, so that T is at most its first term, (13591409 +
//! 545140134 a) p(a) / q(a) times Q.

use std::{
    f64::consts::{LN_2, PI},
    ops::Range,
};

/// 640320^3 / 24.
pub const Q_FACTOR: u64 = 10_939_058_860_032_000;
pub const A_FIRST: u64 = 13_591_409;
pub const A_STEP: u64 = 545_140_134;

/// Limbs of 32 bits that hold P, Q and T of a range of terms.
#[derive(Clone, Copy)]
pub struct TermLimbs {
    pub p: u64,
    pub q: u64,
    pub t: u64,
}

impl TermLimbs {
    pub fn of(terms: Range<u64>) -> Self {
        // Term 0 has factors of 1.
        let factors = (terms.end - terms.start.max(1)) as f64;
        let cubes = 3.0 * log2_of_quotient(terms.end - 1, terms.start.max(1) - 1);
        let p = cubes + factors * 72_f64.log2();
        let q = cubes + factors * (Q_FACTOR as f64).log2();
        let a = (A_FIRST + A_STEP * terms.end) as f64;
        let first_term = match terms.start {
            0 => (A_FIRST as f64).log2(),
            _ => (a * 72.0 / Q_FACTOR as f64).log2(),
        };
        let limbs = |bits: f64| ((bits + 1.0) / 32.0) as u64 + 1;
        Self { p: limbs(p), q: limbs(q), t: limbs(q + first_term.max(0.0)) }
    }

    /// The limbs for each of the ranges of `span` terms, one after another: factors increase, so
    /// that the largest is the last one, or the first one, whose first term is the largest.
    pub fn of_rows(terms: u64, span: u64) -> Self {
        let (first, last) = (Self::of(0..span), Self::of(terms - span..terms));
        Self { p: last.p.max(first.p), q: last.q.max(first.q), t: last.t.max(first.t) }
    }
}

/// An upper bound of log2(n! / m!), by Stirling's series, whose rest is between 0 and its next
/// term.
fn log2_of_quotient(n: u64, m: u64) -> f64 {
    let next_term = if n == 0 { 0.0 } else { 1.0 / (12.0 * n as f64) };
    (stirling(n) + next_term - stirling(m)) / LN_2
}

fn stirling(n: u64) -> f64 {
    let x = n as f64;
    if n == 0 { 0.0 } else { x * x.ln() - x + 0.5 * (2.0 * PI * x).ln() }
}
