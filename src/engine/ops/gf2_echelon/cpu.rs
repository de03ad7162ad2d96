//! The elimination by panels of columns.

use crate::{
    engines::{EliminationWork, EngineModel, EngineWork},
    error::Result,
    gf2,
    gf2_elimination::{DeviceBitsShape, ReducedRows, elimination_bytes},
    operation::Gf2EchelonStep,
    ops::{
        gpu::bit_shape,
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
        let (rows, words) = (bit_rows(types.value, self.columns), self.columns.div_ceil(64));
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
