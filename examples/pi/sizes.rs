//! The sizes of a computation, which follow from the number of digits.

/// Products of `precision` limbs by themselves must stay below the service's limit of 2^26 limbs.
pub const DIGITS_MAX: u64 = 320_000_000;
/// The series is longer than the precision only from some digits on; fewer are cut off at the end.
const DIGITS_MIN: u64 = 1024;
/// The most rows of a vector.
const ROWS_MAX: u64 = 1 << 16;
/// Chunks of more digits take longer on the client than a product of shorter rows on the server.
const CHUNK_DIGITS_MAX: u64 = 4096;
/// Leaves of more terms take longer on the client than a level on the server.
const LEAF_TERMS_MAX: u64 = 48;
/// Limbs of a chunk below its digits. Its error is below 20 units of the last limb: one for each
/// level and few for pi, so that more than 64 bits below the digits are right.
const CHUNK_GUARD_LIMBS: u64 = 3;
/// Limbs of the quotient and of the root below those of pi: see `quotient`.
const GUARD_LIMBS: u64 = 3;
/// Each term adds log2(640320^3 / 1728) bits, rounded down.
const TERM_BITS: f64 = 47.11;

/// The sizes of a computation.
pub struct Sizes {
    /// Terms of the series.
    pub terms: u64,
    pub leaf_terms: u64,
    /// Vectors of leaves; a power of two. Leaf number i is row i / groups of vector i % groups.
    pub groups: u64,
    /// Leaves of a group; a power of two.
    pub group_rows: u32,
    /// Limbs of the numerator, the denominator and the root.
    pub precision: u64,
    /// Digits of a chunk; a multiple of 32, so that powers of two are whole limbs.
    pub chunk_digits: u64,
    /// The limbs of the fractions of each level of the conversion: those with the digits of one
    /// chunk, of two chunks, of four, and so on up to all digits.
    pub fraction_limbs: Vec<u64>,
}

impl Sizes {
    pub fn new(digits: u64) -> Self {
        let digits = digits.max(DIGITS_MIN);
        let chunks = digits.div_ceil(CHUNK_DIGITS_MAX).next_power_of_two().min(ROWS_MAX);
        let chunk_digits = digits.div_ceil(chunks).next_multiple_of(32);
        let mut fraction_limbs = vec![limbs_of_power(10, chunk_digits) + CHUNK_GUARD_LIMBS];
        for level in 0..chunks.ilog2() {
            // The upper half of the digits may take all that the level adds.
            let added = limbs_of_power(10, chunk_digits << level);
            fraction_limbs.push(fraction_limbs[level as usize] + added);
        }
        let precision = fraction_limbs[fraction_limbs.len() - 1] + GUARD_LIMBS;
        // The first dropped term is below 2^(30 - 47.11 terms) times the first one.
        let terms = (32.0 * precision as f64 / TERM_BITS) as u64 + 2;
        let leaves = terms.div_ceil(LEAF_TERMS_MAX).next_power_of_two().max(2);
        let leaf_terms = terms.div_ceil(leaves);
        let groups = leaves.div_ceil(ROWS_MAX);
        Self {
            terms: leaf_terms * leaves,
            leaf_terms,
            groups,
            group_rows: (leaves / groups) as u32,
            precision,
            chunk_digits,
            fraction_limbs,
        }
    }

    pub fn chunks(&self) -> u64 {
        1 << self.levels()
    }

    /// How often the conversion halves fractions.
    pub fn levels(&self) -> usize {
        self.fraction_limbs.len() - 1
    }

    /// Limbs of the fraction of pi that is converted.
    pub fn pi_limbs(&self) -> u64 {
        self.fraction_limbs[self.levels()]
    }
}

/// The limbs of 5^exponent or 10^exponent.
pub fn limbs_of_power(base: u64, exponent: u64) -> u64 {
    // log2(10) and log2(5), rounded up to ten decimal places.
    let bits: u64 = if base == 10 { 33_219_280_949 } else { 23_219_280_949 };
    (u128::from(exponent) * u128::from(bits)).div_ceil(32 * 10_000_000_000) as u64
}
