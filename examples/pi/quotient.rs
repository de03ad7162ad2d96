//! The program that computes pi = 426880 10005 s Q / T for s = 1 / sqrt(10005).
//!
//! With m limbs of precision, Q / T, which is 1 / 13591409 and a little more, has an error below
//! 2^(-32 (m - 1) - 16): Q and T have relative errors below 2^(-32 (m - 1) + 6), and 1 / T one of 6
//! units of 2^(-32 m). That of s Q / T is below 2^(-32 (m - 1) - 22), and the factor is below 2^32.
//! So pi has an error below 2^(-32 (m - 2) - 22), which is far less than a unit of the limbs that
//! are returned: m - 3.

use capstan::client::{ClientProgram, ProgramBuilder, Result, VectorValue};

use super::{
    Outcome,
    newton::{self, RADICAND, RECIPROCAL_START_LIMBS, START_LIMBS},
    series::{SeriesProgram, TOP_LIMBS},
    sizes::Sizes,
};

const FACTOR: i64 = 426_880 * RADICAND as i64;

/// The highest limbs of T, from which the division starts.
pub struct Divisor {
    /// 1 if the highest limb is zero, else 0.
    zero_limbs: u64,
    /// Zeros above the highest bit of the other limbs.
    shift: u32,
    /// The two highest limbs after both are removed.
    top: u64,
}

impl Divisor {
    /// Errors: if the bounds on T were wrong.
    pub fn new(top_limbs: u128) -> Outcome<Self> {
        let zeros = top_limbs.leading_zeros();
        let zero_limbs = u64::from(zeros / 32);
        if zero_limbs > 1 {
            return Err("the denominator is shorter than its bounds say".into());
        }
        let top = ((top_limbs << zeros) >> 64) as u64;
        Ok(Self { zero_limbs, shift: zeros % 32, top })
    }

    pub fn reciprocal_start(&self) -> Vec<u8> {
        let limbs = newton::reciprocal_start(self.top).to_le_bytes();
        limbs[..4 * RECIPROCAL_START_LIMBS as usize].to_vec()
    }
}

pub fn root_start() -> Vec<u8> {
    newton::root_start().to_le_bytes()[..4 * START_LIMBS as usize].to_vec()
}

/// The program and its values.
pub struct QuotientProgram {
    pub program: ClientProgram,
    pub q: VectorValue,
    pub t: VectorValue,
    pub reciprocal_start: VectorValue,
    pub root_start: VectorValue,
    /// The limb above the fraction of pi: 3.
    pub integer: VectorValue,
    pub fraction: VectorValue,
}

impl QuotientProgram {
    pub fn new(sizes: &Sizes, series: &SeriesProgram, divisor: &Divisor) -> Result<Self> {
        let m = sizes.precision;
        let mut builder = ProgramBuilder::new();
        let q = builder.input_integers(1, m)?;
        let t = builder.input_integers(1, m + 1)?;
        let reciprocal_start = builder.input_integers(1, RECIPROCAL_START_LIMBS)?;
        let root_start = builder.input_integers(1, START_LIMBS)?;

        // Both times the same power of two, so that T is a fraction of at least 1/2.
        let shift = 1_i64 << divisor.shift;
        let highest = builder.slice(t, 1 - divisor.zero_limbs, m)?;
        let divided_by = builder.int_sum(&[highest], &[shift], m)?;
        let divided = builder.int_sum(&[q], &[shift], m + 1)?;
        let reciprocal = newton::reciprocal(&mut builder, divided_by, reciprocal_start)?;
        let product = builder.int_mul(divided, reciprocal)?;
        // The product has 2m fraction limbs, if Q and T had dropped the same number of limbs.
        let offset = m + series.t.dropped + 1 - divisor.zero_limbs - series.q.dropped;
        let quotient = builder.slice(product, offset, m)?;

        let root = newton::inverse_root(&mut builder, root_start, m)?;
        let scaled = builder.int_mul(quotient, root)?;
        let scaled = builder.slice(scaled, m, m)?;
        let pi = builder.int_sum(&[scaled], &[FACTOR], m + 1)?;
        let integer = builder.slice(pi, m, 1)?;
        let fraction = builder.slice(pi, m - sizes.pi_limbs(), sizes.pi_limbs())?;
        let program = builder.build()?;
        Ok(Self { program, q, t, reciprocal_start, root_start, integer, fraction })
    }
}

// `Divisor::new` takes the limbs that the series returns as one integer.
const _: () = assert!(TOP_LIMBS == 4);
