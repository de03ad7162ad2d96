//! The elimination by panels of columns.

use super::Gf2EchelonStep;
use crate::{
    engine::{EliminationWork, EngineModel, EngineWork},
    error::Result,
    gf2::{self, Echelon},
    ops::host::{
        self, HostArgument, HostContext, HostResult, HostStep, StepTypes, bit_matrix, bit_rows,
        elimination_error, of_bit_matrix,
    },
    program::ValueType,
};

impl HostStep for Gf2EchelonStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let control = context.control;
        let matrix = bit_matrix(host::only(inputs)?, self.columns, "input", control)?;
        let form = gf2::echelon(matrix, &|_| control.check().is_ok());
        let Echelon { matrix, .. } =
            form.map_err(|error| elimination_error(error, control, "input"))?;
        Ok(of_bit_matrix(matrix))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let (rows, words) = (bit_rows(types.value, self.columns), self.columns.div_ceil(64));
        vec![EngineWork::Elimination(EliminationWork { rows, pivots: 0, words })]
    }

    fn scratch_bytes(&self, inputs: &[ValueType], _: &dyn EngineModel, _: bool) -> u64 {
        let rows = inputs.first().map_or(0, |matrix| bit_rows(*matrix, self.columns));
        gf2::working_bytes(rows, self.columns)
    }
}
