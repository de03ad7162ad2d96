//! The reduction by panels of columns.

use super::Gf2ReduceStep;
use crate::{
    engine::{EliminationWork, EngineModel, EngineWork},
    error::{Error, Result},
    gf2::{self, Reduction},
    ops::host::{
        HostArgument, HostContext, HostResult, HostStep, StepTypes, bit_matrix, bit_rows,
        elimination_error, of_bit_matrix, vector_bytes,
    },
    program::ValueType,
};

impl HostStep for Gf2ReduceStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let [pivots, rows] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let control = context.control;
        let pivots = bit_matrix(pivots, self.columns, super::NAMES[0], control)?;
        let rows = bit_matrix(rows, self.columns, super::NAMES[1], control)?;
        let reduced = gf2::reduce(&pivots, rows, &|_| control.check().is_ok());
        let Reduction { rows, .. } =
            reduced.map_err(|error| elimination_error(error, control, super::NAMES[0]))?;
        Ok(of_bit_matrix(rows))
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let rows = |input: &ValueType| bit_rows(*input, self.columns);
        let [pivots, rows] = [0, 1].map(|at| types.inputs.get(at).map_or(0, rows));
        let words = self.columns.div_ceil(64);
        vec![EngineWork::Elimination(EliminationWork { rows, pivots, words })]
    }

    fn scratch_bytes(&self, inputs: &[ValueType], _: &dyn EngineModel, _: bool) -> u64 {
        let &[pivots, rows] = inputs else { return 0 };
        // The pivots are copied.
        let (copy, rows) = (vector_bytes(pivots), bit_rows(rows, self.columns));
        copy.saturating_add(gf2::working_bytes(rows, self.columns))
    }
}
