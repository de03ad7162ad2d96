//! Prefix products. On the host, pieces of a row are multiplied up, and then by the product of
//! those below; on a GPU, it is a scan, in place if the input is not read again.

use std::sync::Arc;

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::{
    engines::{EngineWork, JobControl, cuda::GpuVector},
    error::Result,
    field::{Field31, FieldId},
    operation::PrefixProductStep,
    ops::{
        gpu::{GpuContext, GpuStep, LaunchedStep},
        host::{
            self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostStep,
            StepTypes,
        },
    },
};

/// Elements of a piece.
const PIECE: usize = 4096;

impl AnyFieldStep for PrefixProductStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let mut rows = host::only(inputs)?.into_rows(field, context.control)?;
        rows.par_iter_mut().try_for_each(|row| multiply_up(field, row, context.control))?;
        Ok(HostResult::of_rows(field, rows))
    }
}

fn multiply_up<F: HostField>(field: F, row: &mut [F::Element], control: &JobControl) -> Result<()> {
    row.par_chunks_mut(PIECE).try_for_each(|piece| -> Result<()> {
        control.check()?;
        let mut product = field.one();
        for element in piece {
            product = field.multiply(product, *element);
            *element = product;
        }
        Ok(())
    })?;
    // Not collected: a vector that grows leaves copies behind.
    let mut below = Zeroizing::new(vec![field.one(); row.len().div_ceil(PIECE)]);
    for (number, piece) in row.chunks_exact(PIECE).enumerate() {
        if number + 1 < below.len() {
            below[number + 1] = field.multiply(below[number], piece[PIECE - 1]);
        }
    }
    let pieces = row.par_chunks_mut(PIECE).zip(below.par_iter()).skip(1);
    pieces.try_for_each(|(piece, below)| {
        control.check()?;
        piece.iter_mut().for_each(|element| *element = field.multiply(*below, *element));
        Ok(())
    })
}

impl HostStep for PrefixProductStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        // Products of pieces, and of their elements.
        vec![types.scan(2)]
    }
}

impl GpuStep for PrefixProductStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        context.in_place(&inputs, |gpu, out| {
            let input = &inputs[0];
            match input.field() {
                FieldId::Prime31(prime) => {
                    let kernels = gpu.kernels31();
                    let field = Field31::new(prime);
                    let words = input.words()?;
                    kernels.prefix_products(&gpu.stream, field, out.words()?, words, input.rows)?;
                }
                _ => {
                    let elements = input.fr_elements()?;
                    let out = out.fr_elements()?;
                    gpu.kernels().prefix_products(&gpu.stream, out, elements, input.rows)?;
                }
            }
            Ok(())
        })
    }
}
