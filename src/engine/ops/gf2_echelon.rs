//! The elimination by panels of columns, on the host or in the memory of a GPU.

use std::sync::Arc;

use crate::{
    engines::{
        EliminationWork, EngineModel, EngineWork,
        cuda::{EliminationInput, GpuVector},
    },
    error::Result,
    gf2,
    gf2_elimination::{DeviceBitsShape, ReducedRows, elimination_bytes},
    operation::Gf2EchelonStep,
    ops::{
        gpu::{
            self, EliminationFields, GpuContext, GpuStep, LaunchedStep, bit_shape,
            launch_elimination,
        },
        host::{
            self, HostArgument, HostContext, HostResult, HostStep, StepTypes, bit_matrix, bit_rows,
            eliminate, elimination_scratch, of_bit_matrix,
        },
    },
    program::ValueType,
};

impl HostStep for Gf2EchelonStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let control = context.control;
        let matrix = bit_matrix(host::only(inputs)?, self.columns, "input", control)?;
        let form = eliminate(context, "input", |eliminate| {
            gf2::echelon_by(matrix, eliminate).map(|form| form.matrix)
        });
        form.map(of_bit_matrix)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let rows = bit_rows(types.value, self.columns);
        let words = self.columns.div_ceil(64);
        vec![EngineWork::Elimination(EliminationWork { rows, pivots: 0, words })]
    }

    fn scratch_bytes(&self, inputs: &[ValueType], _: &dyn EngineModel, _: bool) -> u64 {
        let rows = inputs.first().map_or(0, |matrix| bit_rows(*matrix, self.columns));
        elimination_scratch(0, rows, self.columns)
    }

    fn device_scratch_bytes(&self, inputs: &[ValueType]) -> u64 {
        let &[matrix] = inputs else { return 0 };
        let shape = bit_shape(matrix, self.columns);
        elimination_bytes(DeviceBitsShape { rows: 0, ..shape }, shape, ReducedRows::All)
    }
}

impl GpuStep for Gf2EchelonStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let rows = gpu::only(inputs)?;
        let input = EliminationInput { pivots: None, rows, columns: self.columns };
        launch_elimination(context, input, EliminationFields { pivots: "input", rows: "input" })
    }
}
