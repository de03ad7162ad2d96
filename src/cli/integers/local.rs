//! Multiplies in this process.

use std::mem;

use capstan_engine::{
    engines::{JobControl, cpu::CpuEngine},
    integers::{self, IntegerFactors},
};
use zeroize::Zeroizing;

use crate::exit::{CliFailure, Exit, Result};

/// Limbs that are wiped when dropped.
type Limbs = Zeroizing<Vec<u32>>;

/// The limbs of the product, or of the square of `a`.
///
/// Errors: the product has too many limbs; there are no threads.
pub fn multiply(a: Limbs, b: Option<Limbs>) -> Result<Limbs> {
    let failed =
        |error: crate::error::EngineError| CliFailure::new(Exit::Failed, error.to_string());
    let length = check_length(a.len(), b.as_ref().map_or(a.len(), |b| b.len()))?;
    let engine = CpuEngine::new(0).map_err(failed)?;
    let row = |mut limbs: Limbs| Zeroizing::new(vec![mem::take(&mut *limbs)]);
    let (a, b) = (row(a), b.map(row));
    let factors = IntegerFactors { a: &a, b: b.as_ref().map(|b| b.as_slice()) };
    let mut out = row(Zeroizing::new(vec![0; length]));
    let control = JobControl::default();
    integers::multiply(&engine, factors, &mut out, &control).map_err(failed)?;
    Ok(Zeroizing::new(mem::take(&mut out[0])))
}

fn check_length(a: usize, b: usize) -> Result<usize> {
    let got = a + b;
    let max = capstan_math::operation::PRODUCT_LIMBS_MAX;
    if got as u64 > max {
        let message = format!("the product has {got} limbs of 32 bits: at most {max} are possible");
        return Err(CliFailure::new(Exit::Data, message));
    }
    Ok(got)
}
