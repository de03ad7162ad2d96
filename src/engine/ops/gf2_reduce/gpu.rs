//! Eliminates in the memory of a GPU.

use std::sync::Arc;

use crate::{
    engines::cuda::{EliminationInput, GpuVector},
    error::{Error, Result},
    operation::Gf2ReduceStep,
    ops::gpu::{EliminationFields, GpuContext, GpuStep, LaunchedStep, launch_elimination},
};

impl GpuStep for Gf2ReduceStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let [pivots, rows] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let input = EliminationInput { pivots: Some(pivots), rows, columns: self.columns };
        let [pivots, rows] = Gf2ReduceStep::INPUT_NAMES;
        launch_elimination(context, input, EliminationFields { pivots, rows })
    }
}
