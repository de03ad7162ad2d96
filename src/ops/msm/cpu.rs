//! Sums on the engine, in pieces of the length that it asks for.

use std::ops::Range;

use super::MsmStep;
use crate::{
    curve::{layout, scalars::ScalarEncoding},
    engine::{ComputedMsm, EncodedScalars, Engine, EngineWork},
    error::Result,
    ops::host::{self, HostArgument, HostContext, HostResult, HostStep, HostValue, StepTypes},
    program::ValueType,
    verify::{RandomCombination, Verification},
};

impl HostStep for MsmStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        let (input, bases) = (host::only(inputs)?, context.bases()?);
        let mut run = context.engine.msm(bases.clone(), input.row_count())?;
        for row in 0..input.row_count() {
            for piece in pieces(context)? {
                let scalars = input.range(row, piece.clone());
                run.absorb(row, piece.start, &scalars.scalars(), context.control)?;
            }
        }
        let ComputedMsm { sums, executor } = run.finish()?;
        Ok(HostResult { value: HostValue::Points(sums), executor: Some(executor) })
    }

    fn work(&self, types: &StepTypes<'_>) -> EngineWork {
        let (n, vectors) = match types.inputs {
            [ValueType::Vector(shape)] => (shape.length(), shape.rows()),
            _ => (0, 0),
        };
        EngineWork::Msm { group: self.group, n, vectors }
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let ([input], HostValue::Points(sums)) = (inputs, value) else { return Ok(Some(false)) };
        let factors = RandomCombination::draw(input.row_count())?;
        let mut run = context.engine.msm(context.bases()?.clone(), 1)?;
        for piece in pieces(context)? {
            context.control.check()?;
            let rows = (0..input.row_count()).map(|row| input.range(row, piece.clone()));
            let rows: Vec<_> = rows.collect();
            let scalars: Vec<_> = rows.iter().map(|row| row.scalars()).collect();
            let combined = factors.scalars(&scalars)?;
            let combined = layout::fr_as_bytes(&combined);
            let scalars = EncodedScalars::new(ScalarEncoding::Montgomery, piece.len(), &combined);
            run.absorb(0, piece.start, &scalars, context.control)?;
        }
        Ok(Some(factors.verifies(sums, &run.finish()?.sums)))
    }

    fn scratch_bytes(
        &self,
        inputs: &[ValueType],
        engine: &dyn Engine,
        verify: Verification,
    ) -> u64 {
        let [ValueType::Vector(shape)] = inputs else { return 0 };
        let length = shape.length() as usize;
        let piece = engine.msm_piece_len(self.group, length).clamp(1, length.max(1)) as u64;
        // A scalar and its sign; for the combination, a decoded scalar and a sum.
        let scalar_bytes = if verify == Verification::Probabilistic { 33 + 64 } else { 33 };
        piece * scalar_bytes + engine.msm_scratch_bytes(self.group, length)
    }
}

/// Ranges of a row that the engine absorbs, of about the same length: two halves rather than a full
/// piece and a small rest.
fn pieces(context: &HostContext<'_>) -> Result<impl Iterator<Item = Range<usize>> + use<>> {
    let bases = context.bases()?;
    let length = bases.len();
    let best = context.engine.msm_piece_len(bases.group(), length).max(1);
    let piece = length.div_ceil(length.div_ceil(best).max(1)).max(1);
    Ok((0..length).step_by(piece).map(move |start| start..(start + piece).min(length)))
}
