//! Transforms on the engine, a group of rows at a time.

use super::{
    NttStep,
    pieces::{self, NttInPieces},
};
use crate::{
    engine::{EngineModel, EngineWork, ExecutedBy, add_stages},
    error::Result,
    ops::host::{
        self, HostArgument, HostContext, HostResult, HostStep, HostValue, PiecesSpec, StepInPieces,
        StepTypes,
    },
    program::{ValueType, VectorShape},
    verify::verify_ntt,
};

impl HostStep for NttStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let (input, n) = (host::only(inputs)?, 1 << self.plan.lg_n);
        let mut rows = match input.rows()?.iter().all(|row| row.len() == n) {
            true => input.into_rows(context.control)?,
            false => host::padded(input.rows()?, n, context.control)?,
        };
        let mut executor: Option<ExecutedBy> = None;
        for group in rows.chunks_mut(context.engine.ntt_group_rows(&self.plan).max(1)) {
            let done = context.engine.ntt_in_place(&self.plan, group, context.control)?;
            match &mut executor {
                Some(known) => add_stages(&mut known.stages, &done.stages),
                None => executor = Some(done),
            }
        }
        Ok(HostResult { value: HostValue::Vector(rows), executor })
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        let rows = match types.value {
            ValueType::Vector(shape) => shape.rows(),
            ValueType::Points(_) => 0,
        };
        EngineWork::Ntt { lg_n: self.plan.lg_n, rows }
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let ([input], HostValue::Vector(output)) = (inputs, value) else { return Ok(Some(false)) };
        let control = context.control;
        for (input, output) in input.rows()?.iter().zip(output.iter()) {
            let is_right = match input.len() == output.len() {
                true => verify_ntt(&self.plan, input, output, control)?,
                false => {
                    let padded = host::padded(std::slice::from_ref(input), output.len(), control)?;
                    verify_ntt(&self.plan, &padded[0], output, control)?
                }
            };
            if !is_right {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }

    fn scratch_bytes(&self, _: &[ValueType], engine: &dyn EngineModel, _: bool) -> u64 {
        engine.ntt_scratch_bytes(&self.plan)
    }

    fn pieces_bytes(
        &self,
        input: VectorShape,
        is_checked: bool,
        engine: &dyn EngineModel,
    ) -> Option<u64> {
        Some(pieces::bytes(&self.plan, input, is_checked, engine))
    }

    fn in_pieces(&self, spec: PiecesSpec) -> Option<Box<dyn StepInPieces>> {
        Some(Box::new(NttInPieces::new(self.plan, spec)))
    }
}
