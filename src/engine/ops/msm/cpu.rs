//! Sums on an engine, in pieces of the length that it asks for.

use super::{
    pieces::MsmInPieces,
    sums::{CombinedSums, RowSums, scratch_bytes},
};
use crate::{
    engines::{ComputedMsm, EngineModel, EngineWork},
    error::Result,
    operation::MsmStep,
    ops::host::{
        self, HostArgument, HostContext, HostResult, HostStep, HostValue, PiecesSpec, StepInPieces,
        StepTypes,
    },
    program::{PointsShape, ValueType, VectorShape},
};

impl HostStep for MsmStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let engine = context.engine;
        let bases = context.bases()?;
        let rows = input.row_count();
        let mut sums = match input {
            HostArgument::Encoded(_) => RowSums::of_adjacent_rows(engine, bases, rows)?,
            HostArgument::Owned(_) | HostArgument::Borrowed(_) => {
                RowSums::new(engine, bases, rows)?
            }
        };
        while sums.absorb_next(&input, context.control)? {}
        while !sums.is_almost_done(context.control)? {}
        let ComputedMsm { sums, executor } = sums.finish()?;
        Ok(HostResult { value: HostValue::Points(sums), executor: Some(executor) })
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let (n, vectors) = match types.inputs {
            [ValueType::Vector(shape)] => (shape.length(), shape.rows()),
            _ => (0, 0),
        };
        vec![EngineWork::Msm { group: self.group, n, vectors }]
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let ([input], HostValue::Points(sums)) = (inputs, value) else { return Ok(Some(false)) };
        let mut combined = CombinedSums::new(context.engine, context.bases()?, input.row_count())?;
        while combined.absorb_next(input, context.control)? {}
        while !combined.is_almost_done(context.control)? {}
        combined.verifies(sums, context.control).map(Some)
    }

    fn scratch_bytes(
        &self,
        inputs: &[ValueType],
        engine: &dyn EngineModel,
        is_checked: bool,
    ) -> u64 {
        let [ValueType::Vector(shape)] = inputs else { return 0 };
        scratch_bytes(self.group, shape.length() as usize, engine, is_checked)
    }

    fn pieces_bytes(
        &self,
        input: VectorShape,
        is_checked: bool,
        engine: &dyn EngineModel,
    ) -> Option<u64> {
        let work = scratch_bytes(self.group, input.length() as usize, engine, is_checked);
        let sums = PointsShape { group: self.group, count: input.rows() };
        Some(work + ValueType::Points(sums).bytes())
    }

    fn in_pieces(&self, spec: PiecesSpec) -> Option<Box<dyn StepInPieces>> {
        Some(Box::new(MsmInPieces::new(spec)))
    }
}
