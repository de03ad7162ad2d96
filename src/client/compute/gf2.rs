//! Elimination of matrices of bits.

use std::mem;

use capstan_math::{
    curve::scalars::ScalarEncoding,
    gf2::{BitMatrix, rows_of_words},
    runner::ValueElements,
};

use crate::{
    BitMatrixValue, Client, Execution, ProgramBuilder, ProgramRun, RunOptions, RunResult,
    ScalarInput, Timing, VectorInfo,
    error::{ClientError, Result},
};

/// Result of an elimination over GF(2).
#[derive(Debug)]
pub struct Gf2Result {
    /// The reduced rows in the places of the rows, or the echelon form.
    pub matrix: BitMatrix,
    /// The number of rows of [`Self::matrix`] that are not zero. A reduction has promoted them.
    pub nonzero_rows: u64,
    /// The rank of all rows that were given, pivots included.
    pub rank: u64,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
}

impl Client {
    /// Reduces rows by pivot rows; see [`ProgramBuilder::gf2_reduce`].
    ///
    /// Errors: `InvalidProgram` if the numbers of columns differ or are 0; `Refused` if a pivot is
    /// zero or has the leading column of another, with its index; those of [`Self::run_with`].
    pub async fn gf2_reduce(
        &self,
        pivots: &BitMatrix,
        rows: &BitMatrix,
        options: RunOptions,
    ) -> Result<Gf2Result> {
        let mut program = ProgramBuilder::new();
        let inputs = [pivots, rows].map(|matrix| input(&mut program, matrix));
        let [given, to_reduce] = inputs;
        let (given, to_reduce) = (given?, to_reduce?);
        let reduced = program.gf2_reduce(given, to_reduce)?;
        let run = ProgramRun::new(&program.build()?)
            .input(given.vector(), pivots)
            .input(to_reduce.vector(), rows)
            .send(reduced.vector());
        let result = self.run_with(run, options).await?;
        result.eliminated(reduced, pivots.rows() as u64)
    }

    /// Computes the reduced row echelon form; see [`ProgramBuilder::gf2_echelon`].
    ///
    /// Errors: `InvalidProgram` if there is no column; those of [`Self::run_with`].
    pub async fn gf2_echelon(&self, matrix: &BitMatrix, options: RunOptions) -> Result<Gf2Result> {
        let mut program = ProgramBuilder::new();
        let given = input(&mut program, matrix)?;
        let form = program.gf2_echelon(given)?;
        let run = ProgramRun::new(&program.build()?).input(given.vector(), matrix);
        let result = self.run_with(run.send(form.vector()), options).await?;
        result.eliminated(form, 0)
    }

    /// Downloads a matrix of bits that is on the server: one that [`Self::put_vector`] has put, or
    /// that a run keeps.
    ///
    /// Errors: those of [`Self::get_vector`]; `InvalidResponse` if the vector is not a matrix of
    /// this number of columns.
    pub async fn get_bit_matrix(&self, vector: &VectorInfo, columns: u64) -> Result<BitMatrix> {
        if vector.encoding != ScalarEncoding::PackedBits64 {
            return Err(ClientError::invalid_response("the vector is not over GF(2)"));
        }
        let bytes = self.get_vector(vector).await?;
        let (words, []) = bytes.as_chunks() else {
            return Err(ClientError::invalid_response("the vector ends within a word"));
        };
        matrix_of(words.iter().map(|word| u64::from_le_bytes(*word)).collect(), columns)
    }
}

impl RunResult {
    /// The matrix of bits that the run returned for a value.
    ///
    /// Errors: `InvalidInput` if the run did not send this value; `InvalidResponse` if a row has a
    /// bit after its last column.
    pub fn bit_matrix(&self, value: BitMatrixValue) -> Result<BitMatrix> {
        matrix_of(self.words(value.vector())?.to_vec(), value.columns())
    }

    fn eliminated(self, value: BitMatrixValue, pivots: u64) -> Result<Gf2Result> {
        let (timing, execution) = (self.timing, self.execution.clone());
        let ValueElements::Bits(mut words) = self.into_elements(value.vector())? else {
            return Err(ClientError::invalid_response("the matrix is over another field"));
        };
        let matrix = matrix_of(mem::take(&mut *words), value.columns())?;
        let nonzero = |row: &usize| matrix.leading_column(*row).is_some();
        let nonzero_rows = (0..matrix.rows()).filter(nonzero).count() as u64;
        Ok(Gf2Result { matrix, nonzero_rows, rank: pivots + nonzero_rows, timing, execution })
    }
}

impl<'a> From<&'a BitMatrix> for ScalarInput<'a> {
    /// The rows, as elements of a vector over GF(2).
    fn from(matrix: &'a BitMatrix) -> Self {
        let bytes = bytemuck::cast_slice(matrix.words());
        Self::Bytes { encoding: ScalarEncoding::PackedBits64, bytes }
    }
}

fn input(program: &mut ProgramBuilder, matrix: &BitMatrix) -> Result<BitMatrixValue> {
    program.input_bits(matrix.rows() as u64, matrix.columns() as u64)
}

fn matrix_of(words: Vec<u64>, columns: u64) -> Result<BitMatrix> {
    let rows = rows_of_words(words.len() as u64, columns);
    BitMatrix::from_words(rows, columns, words)
        .map_err(|problem| ClientError::invalid_response(format!("a matrix of bits: {problem}")))
}
