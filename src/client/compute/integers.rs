//! Products of integers: runs of programs of one step, and the limbs of integers.

use capstan_math::curve::scalars::ScalarEncoding;
use num_bigint::BigUint;
use zeroize::Zeroizing;

use crate::{
    Client, Execution, ProgramBuilder, ProgramRun, RunOptions, RunResult, ScalarInput, Timing,
    VectorValue,
    error::{ClientError, Result},
};

/// Integers as the rows of a vector: limbs of 32 bits, the lowest first. Wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct IntegerVector {
    limbs: Zeroizing<Vec<u32>>,
    rows: usize,
}

/// A product of integers.
#[derive(Clone)]
pub struct IntMulResult {
    /// The product.
    pub product: BigUint,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}

impl IntegerVector {
    /// All rows have as many limbs as the largest integer needs, at least one.
    pub fn new(integers: &[BigUint]) -> Self {
        let largest = integers.iter().map(BigUint::bits).max().unwrap_or(0);
        let length = largest.div_ceil(32).max(1) as usize;
        let mut limbs = Zeroizing::new(vec![0; length * integers.len()]);
        for (row, integer) in limbs.chunks_mut(length).zip(integers) {
            row.iter_mut().zip(integer.iter_u32_digits()).for_each(|(limb, digit)| *limb = digit);
        }
        Self { limbs, rows: integers.len() }
    }

    /// The number of integers.
    pub fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// The number of limbs of each row.
    pub fn length(&self) -> u64 {
        self.limbs.len().checked_div(self.rows).unwrap_or(0) as u64
    }
}

impl From<&BigUint> for IntegerVector {
    fn from(integer: &BigUint) -> Self {
        Self::new(std::slice::from_ref(integer))
    }
}

impl<'a> From<&'a IntegerVector> for ScalarInput<'a> {
    /// The limbs of all rows.
    fn from(vector: &'a IntegerVector) -> Self {
        let bytes = bytemuck::cast_slice(&vector.limbs);
        Self::Bytes { encoding: ScalarEncoding::Limbs32, bytes }
    }
}

// Integers may be secret: only their number is printed.
impl std::fmt::Debug for IntegerVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IntegerVector({} integers of {} limbs)", self.rows, self.length())
    }
}

impl std::fmt::Debug for IntMulResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IntMulResult({} bits)", self.product.bits())
    }
}

impl Client {
    /// Multiplies integers. Equal ones are sent once, and squared, which takes about two thirds of
    /// the time.
    ///
    /// Errors: `InvalidProgram` if the product has more than 2^26 limbs of 32 bits; those of
    /// [`Self::run_with`].
    pub async fn int_mul(
        &self,
        a: &BigUint,
        b: &BigUint,
        options: RunOptions,
    ) -> Result<IntMulResult> {
        let (left, right) = (IntegerVector::from(a), (a != b).then(|| IntegerVector::from(b)));
        let mut program = ProgramBuilder::new();
        let of_left = program.input_integers(1, left.length())?;
        let of_right = match &right {
            Some(right) => program.input_integers(1, right.length())?,
            None => of_left,
        };
        let product = program.int_mul(of_left, of_right)?;
        let program = program.build()?;
        let mut run = ProgramRun::new(&program).input(of_left, &left).send(product);
        if let Some(right) = &right {
            run = run.input(of_right, right);
        }
        let result = self.run_with(run, options).await?;
        let product = result.integers(product)?.swap_remove(0);
        Ok(IntMulResult { product, timing: result.timing, execution: result.execution })
    }
}

impl RunResult {
    /// The integers of a vector that the run returned, one for each row.
    ///
    /// Errors: `InvalidInput` if the run did not send this value, or if it is over a field.
    pub fn integers(&self, value: VectorValue) -> Result<Vec<BigUint>> {
        let limbs = self.limbs(value)?;
        let length = usize::try_from(value.length())
            .map_err(|_| ClientError::invalid_response("a row is too long"))?;
        if length == 0 {
            return Ok(vec![BigUint::default(); value.rows() as usize]);
        }
        Ok(limbs.chunks(length).map(BigUint::from_slice).collect())
    }
}
