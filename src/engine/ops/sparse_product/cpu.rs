//! Multiplies pieces with similar numbers of terms.

use crate::{
    curve::FrField,
    engines::{EngineWork, VectorWork},
    error::Result,
    operation::SparseProductStep,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, StepTypes},
};

/// Terms between two checks of the job's control: at most a tenth of a second.
const PIECE_TERMS: usize = 1 << 20;

impl HostStep for SparseProductStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let (input, matrix) = (host::only(inputs)?, context.matrix()?);
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
