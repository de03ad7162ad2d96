//! Transforms on the engine, a group of rows at a time.

use super::pieces::{self, NttInPieces};
use crate::{
    curve::FrField,
    engines::{EngineModel, EngineWork, ExecutedBy, JobControl, add_stages},
    error::{Error, Result},
    field::FieldId,
    operation::NttStep,
    ops::host::{
        self, AnyFieldStep, HostArgument, HostContext, HostField, HostResult, HostRows, HostStep,
        HostValue, PiecesSpec, StepInPieces, StepTypes,
    },
    program::{ValueType, VectorShape},
};

impl AnyFieldStep for NttStep {
    fn run_in<F: HostField>(
        &self,
        field: F,
        inputs: Vec<HostArgument<'_>>,
        context: &HostContext<'_>,
    ) -> Result<HostResult> {
        let input = host::only(inputs)?;
        let n = 1 << self.plan.lg_n;
        let mut rows = match input.rows(field)?.iter().all(|row| row.len() == n) {
            true => input.into_rows(field, context.control)?,
            false => host::padded(input.rows(field)?, n, context.control)?,
        };
        let mut executor: Option<ExecutedBy> = None;
        let plan = field.plan(self.plan)?;
        for group in rows.chunks_mut(context.engine.ntt_group_rows(plan.lg_n).max(1)) {
            let done = field.transform(context.engine, &plan, group, context.control)?;
            match &mut executor {
                Some(known) => add_stages(&mut known.stages, &done.stages),
                None => executor = Some(done),
            }
        }
        Ok(HostResult { executor, ..HostResult::of_rows(field, rows) })
    }
}

fn is_right<F: HostField>(
    step: &NttStep,
    field: F,
    input: &HostArgument<'_>,
    output: &HostRows,
    control: &JobControl,
) -> Result<bool> {
    let plan = field.plan(step.plan)?;
    for (input, output) in input.rows(field)?.iter().zip(field.rows(output)?) {
        let is_right = match input.len() == output.len() {
            true => field.verify_ntt(&plan, input, output, control)?,
            false => {
                let padded = host::padded(std::slice::from_ref(input), output.len(), control)?;
                field.verify_ntt(&plan, &padded[0], output, control)?
            }
        };
        if !is_right {
            return Ok(false);
        }
    }
    Ok(true)
}

impl HostStep for NttStep {
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult> {
        host::run_in_any_field(self, inputs, context)
    }

    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        let (field, rows) = match types.value {
            ValueType::Vector(shape) => (shape.field(), shape.rows()),
            ValueType::Points(_) => (FieldId::Bls12381Fr, 0),
        };
        vec![EngineWork::Ntt { field, lg_n: self.plan.lg_n, rows }]
    }

    fn check(
        &self,
        inputs: &[HostArgument<'_>],
        value: &HostValue,
        context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        let ([input], HostValue::Vector(output)) = (inputs, value) else { return Ok(Some(false)) };
        let is_right = match output {
            HostRows::Fr(_) => is_right(self, FrField, input, output, context.control),
            HostRows::Prime31(field, _) => is_right(self, *field, input, output, context.control),
            HostRows::Gf2(_) | HostRows::Integers(_) => {
                return Err(Error::Internal("no transforms over these vectors".into()));
            }
        };
        is_right.map(Some)
    }

    fn scratch_bytes(&self, inputs: &[ValueType], engine: &dyn EngineModel, _: bool) -> u64 {
        let [ValueType::Vector(shape)] = inputs else { return 0 };
        engine.ntt_scratch_bytes(shape.field(), self.plan.lg_n)
    }

    fn pieces_bytes(
        &self,
        input: VectorShape,
        is_checked: bool,
        engine: &dyn EngineModel,
    ) -> Option<u64> {
        let is_fr = input.field() == FieldId::Bls12381Fr;
        is_fr.then(|| pieces::bytes(self.plan.lg_n, input, is_checked, engine))
    }

    fn in_pieces(&self, spec: PiecesSpec) -> Option<Box<dyn StepInPieces>> {
        if spec.input.field() != FieldId::Bls12381Fr {
            return None;
        }
        let plan = FrField.plan(self.plan).ok()?;
        Some(Box::new(NttInPieces::new(plan, spec)))
    }
}
