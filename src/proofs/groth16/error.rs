//! Why a key cannot be registered, or a proof cannot be made.

use std::error::Error;

use ark_relations::gr1cs::SynthesisError;

use super::{WeakKey, files::ProofFileError};

/// An error of the type of the runner, such as `ClientError`.
pub type RunnerError = Box<dyn Error + Send + Sync>;

/// Errors of Groth16.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Groth16Error {
    /// A call of the runner has failed, with an error of its type.
    #[error(transparent)]
    Run(RunnerError),
    /// A file is invalid.
    #[error(transparent)]
    File(#[from] ProofFileError),
    /// arkworks cannot make the constraint system.
    #[error("the circuit cannot be synthesized: {0}")]
    Synthesis(#[from] SynthesisError),
    /// The circuit has other constraints than products.
    #[error("the circuit is not a rank-1 constraint system")]
    NotR1cs,
    /// The constraint system is too large for a transform over the field, or a matrix for its
    /// indices.
    #[error(
        "the constraint system is too large: at most 2^32 constraints and public inputs, and \
         2^32 - 1 coefficients in a matrix"
    )]
    TooLarge,
    /// Variable 0 is the constant one and is public, and at most all variables are public.
    #[error("the number of public variables is {public}, but there are {variables} variables")]
    PublicVariables {
        /// The number of public variables.
        public: usize,
        /// The number of all variables.
        variables: usize,
    },
    /// A matrix names a variable that does not exist.
    #[error("row {row} of matrix {matrix} names variable {variable}, but there are {variables}")]
    NoSuchVariable {
        /// The matrix: `a`, `b` or `c`.
        matrix: &'static str,
        /// The row's index.
        row: usize,
        /// The index of the variable.
        variable: usize,
        /// The number of variables.
        variables: usize,
    },
    /// The key and the constraint system, or it and the assignment, do not belong together.
    #[error("{part} has {got} elements, but the constraint system needs {expected}")]
    Length {
        /// What has the wrong length: a part of the key, a matrix, or `the assignment`.
        part: &'static str,
        /// The number of elements that the constraint system needs.
        expected: usize,
        /// The number of elements.
        got: usize,
    },
    /// There is nothing to prove: the circuit has no constraints.
    #[error("the circuit has no constraints")]
    Empty,
    /// Proofs of the key prove nothing, do not hide the witness, or do not verify.
    #[error(transparent)]
    WeakKey(#[from] WeakKey),
    /// A part of the key or of the constraint system cannot be put.
    #[error("cannot put {part} on the server: {error}")]
    Part {
        /// The part: a field of the key such as `a_query`, `matrix a`, `matrix b`,
        /// `variables of a` or `variables of b`.
        part: &'static str,
        /// Why the call has failed.
        error: RunnerError,
    },
    /// The server can never store all parts of the key.
    #[error("the key takes {needed} bytes, but the server stores at most {max} (store_bytes_max)")]
    StoreTooSmall {
        /// Bytes of all parts of the key.
        needed: u64,
        /// Bytes that the server stores at most.
        max: u64,
    },
    /// A proof does not verify: its key was made for another constraint system, or the server's
    /// sums are wrong.
    #[error(
        "the proof does not verify: the key was made for another constraint system, or the \
         server's sums are wrong"
    )]
    NotVerified,
    /// The first variable is not one.
    #[error("the assignment does not begin with 1")]
    FirstNotOne,
    /// A constraint does not hold.
    #[error("the assignment does not satisfy constraint {index}")]
    Unsatisfied {
        /// The constraint's index.
        index: usize,
    },
}

impl Groth16Error {
    /// A failed call of a runner.
    pub(super) fn run(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Run(Box::new(error))
    }
}
