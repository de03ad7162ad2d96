//! A rank-1 constraint system.

use ark_ff::One;
use ark_relations::utils::matrix::Matrix;
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::Groth16Error;
use crate::client::Fr;

/// A rank-1 constraint system: an assignment z satisfies it if (A z) (B z) = C z, row by row.
///
/// Each matrix has one row per constraint, of coefficients and the indices of their variables.
/// Variable 0 is one, then the public inputs follow, then the witness.
#[derive(Debug, Clone)]
pub struct ConstraintMatrices {
    a: Matrix<Fr>,
    b: Matrix<Fr>,
    c: Matrix<Fr>,
    public: usize,
    variables: usize,
}

/// A z and B z, row by row.
pub(super) struct ConstraintProducts {
    pub a: Zeroizing<Vec<Fr>>,
    pub b: Zeroizing<Vec<Fr>>,
}

impl ConstraintMatrices {
    /// A system of the matrices A, B and C over `variables` variables, of which the first `public`
    /// are one and the public inputs.
    ///
    /// Errors: `Length` if the matrices have different numbers of rows; `PublicVariables`;
    /// `NoSuchVariable`.
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
        for (name, matrix) in [("a", &a), ("b", &b), ("c", &c)] {
            check_variables(name, matrix, variables)?;
        }
        Ok(Self { a, b, c, public, variables })
    }

    /// The number of constraints.
    pub fn constraints(&self) -> usize {
        self.a.len()
    }

    /// The number of variables that the verifier knows, including the constant one.
    pub fn public_variables(&self) -> usize {
        self.public
    }

    /// The number of all variables.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// The rows of A, B and C.
    pub fn rows(&self) -> [&Matrix<Fr>; 3] {
        [&self.a, &self.b, &self.c]
    }

    /// Checks that an assignment satisfies all constraints.
    ///
    /// Errors: `Length`, `FirstNotOne`; `Unsatisfied` for the first constraint that does not hold.
    pub fn check(&self, assignment: &[Fr]) -> Result<(), Groth16Error> {
        self.check_assignment(assignment)?;
        let holds = |index: &usize| {
            let [a, b, c] = [&self.a, &self.b, &self.c].map(|m| product(&m[*index], assignment));
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

    /// `assignment` has as many elements as there are variables.
    pub(super) fn multiply(&self, assignment: &[Fr]) -> ConstraintProducts {
        let [a, b] = [&self.a, &self.b].map(|matrix| {
            let rows = matrix.par_iter().map(|row| product(row, assignment));
            Zeroizing::new(rows.collect())
        });
        ConstraintProducts { a, b }
    }
}

fn product(row: &[(Fr, usize)], assignment: &[Fr]) -> Fr {
    let terms = row.iter().map(|(coefficient, variable)| {
        let value = assignment[*variable];
        if coefficient.is_one() { value } else { value * coefficient }
    });
    terms.sum()
}

fn check_variables(
    name: &'static str,
    matrix: &Matrix<Fr>,
    variables: usize,
) -> Result<(), Groth16Error> {
    for (row, terms) in matrix.iter().enumerate() {
        if let Some((_, variable)) = terms.iter().find(|(_, variable)| *variable >= variables) {
            let (matrix, variable) = (name, *variable);
            return Err(Groth16Error::NoSuchVariable { matrix, row, variable, variables });
        }
    }
    Ok(())
}

pub(super) fn check_length(
    part: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), Groth16Error> {
    if got == expected { Ok(()) } else { Err(Groth16Error::Length { part, expected, got }) }
}
