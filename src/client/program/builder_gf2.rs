//! Matrices of bits: vectors over GF(2), and the steps that eliminate them.

use capstan_math::{
    error::FieldProblem,
    field::FieldId,
    gf2::rows_of_words,
    operation::{Gf2EchelonStep, Gf2ReduceStep, InputStep},
    program::StepProblem,
};

use super::{ProgramBuilder, VectorValue};
use crate::error::Result;

/// A matrix of bits that a step of a program makes: a vector of one row over GF(2), which holds the
/// matrix's rows one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitMatrixValue {
    vector: VectorValue,
    columns: u64,
}

impl BitMatrixValue {
    /// A vector as a matrix: what [`ProgramBuilder::concat`] joined or [`ProgramBuilder::slice`]
    /// took. A row has one element for each 64 columns. Steps refuse a vector that is no matrix of
    /// this number of columns.
    pub const fn new(vector: VectorValue, columns: u64) -> Self {
        Self { vector, columns }
    }

    /// The matrix as a vector, for inputs, outputs and other steps.
    pub const fn vector(&self) -> VectorValue {
        self.vector
    }

    /// The number of columns.
    pub const fn columns(&self) -> u64 {
        self.columns
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        rows_of_words(self.vector.length(), self.columns)
    }
}

impl ProgramBuilder {
    /// Adds a matrix of bits that each run provides, such as a
    /// [`BitMatrix`](crate::BitMatrix).
    pub fn input_bits(&mut self, rows: u64, columns: u64) -> Result<BitMatrixValue> {
        let length = rows.saturating_mul(columns.div_ceil(64));
        let vector = self.vector(&[], InputStep { field: FieldId::Gf2, rows: 1, length })?;
        Ok(BitMatrixValue { vector, columns })
    }

    /// Reduces rows by pivot rows, one after the other: while a row's leading column, the lowest in
    /// which it is 1, is that of a pivot, the pivot is added to it. A row that then is not zero is
    /// promoted: it is a pivot for the rows after it. The result has the rows, in their places.
    pub fn gf2_reduce(
        &mut self,
        pivots: BitMatrixValue,
        rows: BitMatrixValue,
    ) -> Result<BitMatrixValue> {
        let columns = pivots.columns;
        if rows.columns != columns {
            let problem = FieldProblem::Length { expected: columns, got: rows.columns };
            let problem = StepProblem::field("columns", problem);
            return Err(self.step_error(problem, "gf2_reduce"));
        }
        let inputs = [pivots.vector, rows.vector];
        let step = Gf2ReduceStep { inputs: inputs.map(|input| input.id), columns };
        Ok(BitMatrixValue { vector: self.vector(&inputs, step)?, columns })
    }

    /// Computes the reduced row echelon form: the rows that are not zero, by leading column, and
    /// then rows of zeros.
    pub fn gf2_echelon(&mut self, matrix: BitMatrixValue) -> Result<BitMatrixValue> {
        let BitMatrixValue { vector, columns } = matrix;
        let vector = self.vector(&[vector], Gf2EchelonStep { input: vector.id, columns })?;
        Ok(BitMatrixValue { vector, columns })
    }
}
