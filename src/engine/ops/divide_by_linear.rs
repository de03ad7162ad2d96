//! Synthetic division: from the highest coefficient down, each quotient's coefficient is the value
//! so far of Horner's rule. On the host, pieces of a row start from the value of the coefficients
//! above them; on a GPU, it is a scan, in place if the input is not read again.

use std::sync::Arc;

use ark_ff::{AdditiveGroup, Field};
use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    curve::{Fr, FrField},
    engines::{EngineWork, JobControl, cuda::GpuVector},
    error::Result,
    operation::DivideByLinearStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
    },
};

/// Coefficients of a piece.
const PIECE: usize = 4096;

impl HostStep for DivideByLinearStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let mut rows = host::only(inputs)?.into_rows(FrField, context.control)?;
        rows.par_iter_mut().try_for_each(|row| divide(row, self.point, context.control))?;
        Ok(HostResult::of_rows(FrField, rows))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        // Values, quotient, and on a GPU the scan of the values.
        vec![types.scan(3)]
    }
}

fn divide(row: &mut [Fr], point: Fr, control: &JobControl) -> Result<()> {
    // Not collected: a vector that grows leaves copies behind.
    let mut above = Zeroizing::new(vec![Fr::ZERO; row.len().div_ceil(PIECE)]);
    let pieces = above.par_iter_mut().zip(row.par_chunks(PIECE));
    pieces.try_for_each(|(value, piece)| -> Result<()> {
        control.check()?;
        *value = host::horner(FrField, piece, point);
        Ok(())
    })?;
    let step = point.pow([PIECE as u64]);
    let mut value = Fr::ZERO;
    // Replaces the value of each piece by that of all coefficients above it.
    for piece in above.iter_mut().rev() {
        let own = std::mem::replace(piece, value);
        value = own + step * value;
    }
    row.par_chunks_mut(PIECE).zip(above.par_iter()).try_for_each(|(piece, above)| {
        control.check()?;
        let mut value = *above;
        for coefficient in piece.iter_mut().rev() {
            let own = std::mem::replace(coefficient, value);
            value = own + point * value;
        }
        Ok(())
    })
}

impl GpuStep for DivideByLinearStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        context.in_place(&inputs, |gpu, out| {
            let input = inputs[0].fr_elements()?;
            let rows = inputs[0].rows;
            let kernels = gpu.kernels();
            let out = out.fr_elements()?;
            Ok(kernels.divide_by_linear(&gpu.stream, out, input, rows, self.point)?)
        })
    }
}
