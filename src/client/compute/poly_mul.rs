//! Products of polynomials: runs of programs of one step.

use std::{mem, ptr, time::Duration};

use capstan_math::{
    curve::{Fr, scalars::ScalarEncoding},
    field::{FieldId, Prime31},
};

use crate::{
    Client, Execution, InputElements, PolyReduction, ProgramBuilder, ProgramRun, Progress,
    RunOptions, ScalarInput, SharedElement, Timing, Verification, convert,
    error::{ClientError, Result},
};

/// Options of a product of polynomials. The default computes one whole product.
#[derive(Clone)]
pub struct PolyMulOptions {
    /// The polynomial that products are reduced by.
    pub reduction: PolyReduction,
    /// Number of products, 1 to 65536: the factors are that many rows of equal length, one after
    /// another.
    pub batch: u32,
    /// How the server checks the products.
    pub verify: Verification,
    /// Reduce coefficients modulo r, or modulo the prime; otherwise the server refuses larger ones.
    pub reduce: bool,
    /// Time limit of the whole call, retries included; defaults to the client's.
    pub deadline: Option<Duration>,
    /// Called as bytes are sent, then received; both count toward one total.
    pub progress: Option<Progress>,
}

impl Default for PolyMulOptions {
    fn default() -> Self {
        Self {
            reduction: PolyReduction::None,
            batch: 1,
            verify: Verification::None,
            reduce: false,
            deadline: None,
            progress: None,
        }
    }
}

/// Products of polynomials, whose coefficients are `Fr`, or `u32` below a prime.
pub struct PolyMulResult<E> {
    /// The products, one after another, the lowest coefficient of each first.
    pub coefficients: Vec<E>,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}

// Coefficients may be secret witness data: only their number is printed.
impl<E> std::fmt::Debug for PolyMulResult<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PolyMulResult({} coefficients)", self.coefficients.len())
    }
}

/// Factors of any encoding. The same memory twice is sent once.
#[doc(hidden)]
pub struct PolyFactors<'a> {
    /// The encoding of both factors.
    pub encoding: ScalarEncoding,
    /// The coefficients of the left factor.
    pub a: &'a [u8],
    /// The coefficients of the right factor.
    pub b: &'a [u8],
}

impl Client {
    /// Multiplies polynomials over Fr, given by their coefficients, the lowest first. Squares are
    /// sent and transformed once if `a` and `b` are the same memory.
    ///
    /// Shape: each factor has `options.batch` rows of equal length, of at least 1; those of `a` and
    /// `b` may differ. A whole product has length(a) + length(b) - 1 coefficients, a reduced one
    /// as many as the degree of the reduction.
    /// Errors: `InvalidInput` if rows do not have equal lengths; `InvalidProgram` for lengths and
    /// degrees that the server does not compute; `Refused`; `DeadlineExceeded`; `InvalidResponse`
    /// if the products were verified less than requested.
    pub async fn poly_mul(
        &self,
        a: &[Fr],
        b: &[Fr],
        options: PolyMulOptions,
    ) -> Result<PolyMulResult<Fr>> {
        let [a, b] = [a, b].map(capstan_math::curve::layout::fr_as_bytes);
        let factors = PolyFactors { encoding: ScalarEncoding::Montgomery, a, b };
        self.poly_mul_fr_bytes(factors, options).await
    }

    /// Like [`Self::poly_mul`], over the field of a prime below 2^31. Values are below the prime,
    /// unless `options.reduce` is set.
    ///
    /// Errors: those of [`Self::poly_mul`].
    pub async fn poly_mul31(
        &self,
        field: Prime31,
        a: &[u32],
        b: &[u32],
        options: PolyMulOptions,
    ) -> Result<PolyMulResult<u32>> {
        let [a, b] = [a, b].map(bytemuck::cast_slice);
        let factors = PolyFactors { encoding: ScalarEncoding::Canonical31, a, b };
        self.poly_mul31_bytes(field, factors, options).await
    }

    /// Like [`Self::poly_mul`], for factors of any encoding.
    #[doc(hidden)]
    pub async fn poly_mul_fr_bytes(
        &self,
        factors: PolyFactors<'_>,
        options: PolyMulOptions,
    ) -> Result<PolyMulResult<Fr>> {
        self.run_product(FieldId::Bls12381Fr, factors, options).await
    }

    /// Like [`Self::poly_mul31`], for factors of any encoding.
    #[doc(hidden)]
    pub async fn poly_mul31_bytes(
        &self,
        field: Prime31,
        factors: PolyFactors<'_>,
        options: PolyMulOptions,
    ) -> Result<PolyMulResult<u32>> {
        self.run_product(field.into(), factors, options).await
    }

    async fn run_product<E: SharedElement>(
        &self,
        field: FieldId,
        factors: PolyFactors<'_>,
        options: PolyMulOptions,
    ) -> Result<PolyMulResult<E>> {
        let PolyFactors { encoding, a, b } = factors;
        let is_square = ptr::eq(a, b);
        let mut program = ProgramBuilder::new();
        let mut input = |name, bytes: &[u8]| {
            let length = row_length(name, bytes, encoding, options.batch)?;
            program.input_over(field, options.batch, length)
        };
        let left = input("a", a)?;
        let right = if is_square { left } else { input("b", b)? };
        let product = program.poly_mul(left, right, options.reduction)?;
        let elements = |bytes| InputElements {
            reduce: options.reduce,
            ..ScalarInput::Bytes { encoding, bytes }.into()
        };
        let program = program.build()?;
        let mut run = ProgramRun::new(&program).input(left, elements(a)).send(product);
        if !is_square {
            run = run.input(right, elements(b));
        }
        let PolyMulOptions { verify, deadline, progress, .. } = options;
        let result = self.run_with(run, RunOptions { verify, deadline, progress }).await?;
        let (timing, execution) = (result.timing, result.execution.clone());
        let elements = E::of_values(result.into_elements(product)?);
        let coefficients = elements.map(|mut elements| mem::take(&mut *elements));
        let other_field = "the product is over another field";
        let coefficients = coefficients.ok_or(ClientError::invalid_response(other_field))?;
        Ok(PolyMulResult { coefficients, timing, execution })
    }
}

/// Coefficients of each of the rows.
fn row_length(
    name: &'static str,
    bytes: &[u8],
    encoding: ScalarEncoding,
    rows: u32,
) -> Result<u64> {
    let count = convert::element_count(name, bytes.len() as u64, encoding.width())?;
    let length = count / u64::from(rows).max(1);
    let whole = length * u64::from(rows);
    if rows > 0 && whole != count {
        return Err(ClientError::length(name, whole, count));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_equal_lengths() {
        let length =
            |bytes, rows| row_length("a", &vec![0; bytes], ScalarEncoding::Canonical31, rows);
        assert_eq!(length(24, 3).unwrap(), 2);
        assert_eq!(length(0, 3).unwrap(), 0);
        for (bytes, rows) in [(24, 4), (25, 1), (4, 2)] {
            assert!(length(bytes, rows).is_err(), "{bytes} bytes, {rows} rows");
        }
    }
}
