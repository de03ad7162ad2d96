//! On the host, multiplies pieces with similar numbers of terms; on a GPU, by one or two launches
//! for each row.

use std::sync::Arc;

use crate::{
    curve::FrField,
    engines::{EngineWork, VectorWork, cuda::GpuVector},
    error::{Error, Result},
    operation::SparseProductStep,
    ops::{
        gpu::{self, GpuContext, GpuStep, LaunchedStep},
        host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
    },
};

/// Terms between two checks of the job's control: at most a tenth of a second.
const PIECE_TERMS: usize = 1 << 20;

impl HostStep for SparseProductStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let matrix = context.matrix()?;
        let mut products = host::zeros(context.shape()?, context.control)?;
        for (row, product) in input.rows(FrField)?.iter().zip(products.iter_mut()) {
            for piece in matrix.pieces(PIECE_TERMS) {
                context.control.check()?;
                matrix.add_piece(piece, row, product);
            }
        }
        Ok(HostResult::of_rows(FrField, products))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let [input, product] = [types.inputs.first().copied(), Some(types.value)]
            .map(|value| value.map_or(0, host::elements));
        let vectors = product.checked_div(self.rows).unwrap_or(0);
        let terms = self.terms.saturating_mul(vectors);
        // A term is 8 bytes, and reads an element.
        let bytes = terms.saturating_mul(40).saturating_add(32 * input.max(product));
        vec![EngineWork::Vectors(VectorWork { products: terms, bytes, is_scan: false })]
    }
}

impl GpuStep for SparseProductStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let matrix = context.matrix;
        let matrix =
            matrix.ok_or_else(|| Error::Internal("the step's matrix is missing".into()))?;
        let input = gpu::only(inputs)?;
        Ok(context.gpu.multiply_sparse(matrix, &input)?.into())
    }
}
