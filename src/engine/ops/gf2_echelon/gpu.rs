//! Eliminates in the memory of a GPU.

use std::sync::Arc;

use crate::{
    engines::cuda::{EliminationInput, GpuVector},
    error::Result,
    operation::Gf2EchelonStep,
    ops::gpu::{self, EliminationFields, GpuContext, GpuStep, LaunchedStep, launch_elimination},
};

impl GpuStep for Gf2EchelonStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let rows = gpu::only(inputs)?;
        let input = EliminationInput { pivots: None, rows, columns: self.columns };
        launch_elimination(context, input, EliminationFields { pivots: "input", rows: "input" })
    }
}
