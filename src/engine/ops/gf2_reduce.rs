//! The reduction by panels of columns, on the host or in the memory of a GPU.

use std::sync::Arc;

use crate::{
    engines::{
        EliminationWork, EngineModel, EngineWork,
        cuda::{EliminationInput, GpuVector},
    },
    error::{Error, Result},
    gf2,
    gf2_elimination::{ReducedRows, elimination_bytes},
    operation::Gf2ReduceStep,
    ops::{
        gpu::{
            EliminationFields, GpuContext, GpuStep, LaunchedStep, bit_shape, launch_elimination,
        },
        host::{
            HostArgument, HostContext, HostResult, HostStep, StepTypes, bit_matrix, bit_rows,
            eliminate, elimination_scratch, of_bit_matrix, vector_bytes,
        },
    },
    program::ValueType,
};

impl HostStep for Gf2ReduceStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let [pivots, rows] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let control = context.control;
        let pivots = bit_matrix(pivots, self.columns, Gf2ReduceStep::INPUT_NAMES[0], control)?;
        let rows = bit_matrix(rows, self.columns, Gf2ReduceStep::INPUT_NAMES[1], control)?;
        let reduced = eliminate(context, Gf2ReduceStep::INPUT_NAMES[0], |eliminate| {
            gf2::reduce_by(&pivots, rows, eliminate).map(|reduction| reduction.rows)
        });
        reduced.map(of_bit_matrix)
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
        let copy = vector_bytes(pivots);
        let [pivots, rows] = [pivots, rows].map(|value| bit_rows(value, self.columns));
        copy.saturating_add(elimination_scratch(pivots, rows, self.columns))
    }

    fn device_scratch_bytes(&self, inputs: &[ValueType]) -> u64 {
        let &[pivots, rows] = inputs else { return 0 };
        let [pivots, rows] = [pivots, rows].map(|value| bit_shape(value, self.columns));
        elimination_bytes(pivots, rows, ReducedRows::Remaining)
    }
}

impl GpuStep for Gf2ReduceStep {
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let [pivots, rows] = <[_; 2]>::try_from(inputs)
            .map_err(|_| Error::Internal("the step needs two inputs".into()))?;
        let input = EliminationInput { pivots: Some(pivots), rows, columns: self.columns };
        let [pivots, rows] = Gf2ReduceStep::INPUT_NAMES;
        launch_elimination(context, input, EliminationFields { pivots, rows })
    }
}
