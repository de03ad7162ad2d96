//! Polynomials, in this process or on the server.

use crate::client::{Fr, InputElements, SharedVector, VectorInfo};

/// The coefficients of a polynomial, the constant one first: elements in memory, a vector that the
/// server keeps ([`Client::put_vector`](crate::client::Client::put_vector)), or one that it shares.
#[derive(Debug, Clone)]
pub struct KzgPolynomial<'a> {
    pub(super) coefficients: InputElements<'a>,
    pub(super) length: u64,
}

impl<'a> From<&'a [Fr]> for KzgPolynomial<'a> {
    fn from(coefficients: &'a [Fr]) -> Self {
        Self { coefficients: coefficients.into(), length: coefficients.len() as u64 }
    }
}

impl<'a> From<&'a Vec<Fr>> for KzgPolynomial<'a> {
    fn from(coefficients: &'a Vec<Fr>) -> Self {
        coefficients.as_slice().into()
    }
}

impl From<&VectorInfo> for KzgPolynomial<'_> {
    fn from(vector: &VectorInfo) -> Self {
        Self { coefficients: InputElements::stored(vector.id, 0), length: vector.count }
    }
}

impl<'a> From<&'a SharedVector> for KzgPolynomial<'a> {
    fn from(vector: &'a SharedVector) -> Self {
        Self { coefficients: vector.into(), length: vector.len() as u64 }
    }
}
