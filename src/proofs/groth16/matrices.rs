//! A rank-1 constraint system.

use ark_ff::One;
use ark_relations::utils::matrix::Matrix;
use rayon::prelude::*;

use super::Groth16Error;
use crate::{
    curve::Fr,
    sparse::{SparseBuilder, SparseMatrix, SparseProblem},
};

/// A rank-1 constraint system: an assignment z satisfies it if (A z) (B z) = C z, row by row.
///
/// Each matrix has one row per constraint, of coefficients and the indices of their variables.
/// Variable 0 is one, then the public inputs follow, then the witness.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstraintMatrices {
    a: SparseMatrix,
    b: SparseMatrix,
    c: SparseMatrix,
    public: usize,
    variables: usize,
}

impl ConstraintMatrices {
    /// A system of the matrices A, B and C over `variables` variables, of which the first `public`
    /// are one and the public inputs.
    ///
    /// Errors: `Length` if the matrices have different numbers of rows; `PublicVariables`;
    /// `NoSuchVariable`; `TooLarge` for more than 2^32 - 1 coefficients in a matrix.
    pub fn new(
        [a, b, c]: [Matrix<Fr>; 3],
        public: usize,
        variables: usize,
    ) -> Result<Self, Groth16Error> {
        let rows = a.len();
        for (matrix, part) in [(&b, "matrix b"), (&c, "matrix c")] {
            check_length(part, rows, matrix.len())?;
        }
        if !(1..=variables).contains(&public) {
            return Err(Groth16Error::PublicVariables { public, variables });
        }
        let [a, b, c] =
            [("a", a), ("b", b), ("c", c)].map(|(name, matrix)| compress(name, matrix, variables));
        Ok(Self { a: a?, b: b?, c: c?, public, variables })
    }

    /// The number of constraints.
    pub fn constraints(&self) -> usize {
        self.a.rows()
    }

    /// The number of variables that the verifier knows, including the constant one.
    pub fn public_variables(&self) -> usize {
        self.public
    }

    /// The number of all variables.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// The number of coefficients in all matrices.
    pub fn terms(&self) -> usize {
        [&self.a, &self.b, &self.c].map(|matrix| matrix.terms().len()).iter().sum()
    }

    /// The rows of A, B and C of a constraint: coefficients and the indices of their variables.
    ///
    /// Panics if there is no such constraint.
    pub fn constraint(&self, index: usize) -> [Vec<(Fr, usize)>; 3] {
        [&self.a, &self.b, &self.c].map(|matrix| matrix.row(index).collect())
    }

    /// Checks that there is something to prove: a constraint.
    ///
    /// Errors: `Empty`.
    pub fn check_provable(&self) -> Result<(), Groth16Error> {
        if self.constraints() == 0 { Err(Groth16Error::Empty) } else { Ok(()) }
    }

    /// Checks that an assignment satisfies all constraints.
    ///
    /// Errors: `Length`, `FirstNotOne`; `Unsatisfied` for the first constraint that does not hold.
    pub fn check(&self, assignment: &[Fr]) -> Result<(), Groth16Error> {
        self.check_assignment(assignment)?;
        let holds = |index: &usize| {
            let matrices = [&self.a, &self.b, &self.c];
            let [a, b, c] = matrices.map(|matrix| matrix.multiply_row(*index, assignment));
            a * b == c
        };
        let unsatisfied = (0..self.constraints()).into_par_iter().find_first(|index| !holds(index));
        unsatisfied.map_or(Ok(()), |index| Err(Groth16Error::Unsatisfied { index }))
    }

    /// Checks the length and the first element of an assignment.
    ///
    /// Errors: `Length`, `FirstNotOne`.
    pub fn check_assignment(&self, assignment: &[Fr]) -> Result<(), Groth16Error> {
        check_length("the assignment", self.variables, assignment.len())?;
        if assignment[0].is_one() { Ok(()) } else { Err(Groth16Error::FirstNotOne) }
    }

    /// A and B, of which a proof needs the products with the assignment.
    pub(super) fn factors(&self) -> [&SparseMatrix; 2] {
        [&self.a, &self.b]
    }
}

fn compress(
    name: &'static str,
    matrix: Matrix<Fr>,
    variables: usize,
) -> Result<SparseMatrix, Groth16Error> {
    let refused = |problem| match problem {
        SparseProblem::NoSuchColumn { row, column: variable } => {
            Groth16Error::NoSuchVariable { matrix: name, row, variable, variables }
        }
        SparseProblem::TooManyTerms => Groth16Error::TooLarge,
    };
    let mut compressed = SparseBuilder::new(matrix.len(), variables);
    for row in matrix {
        compressed.push_row(row).map_err(refused)?;
    }
    compressed.build().map_err(refused)
}

pub(super) fn check_length(
    part: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), Groth16Error> {
    if got == expected { Ok(()) } else { Err(Groth16Error::Length { part, expected, got }) }
}
