//! Estimates the memory and the time that a call of a program needs.

use std::{collections::HashSet, time::Instant};

use super::{found_call::find_program, run_outputs::unread_bytes};
use crate::grpc::{calls::call::CallContext, responses::response::as_micros_u64};
use crate::{
    curve::{points::SumEncoding, scalars::ScalarEncoding},
    engine::DeviceInfo,
    error::Result,
    exec::start_run,
    field::FieldId,
    ops::OperationProgram,
    program::{
        ExternalOperand, InputSpec, OutputKind, OutputSpec, StepKind, ValueId, ValueType,
        VectorShape,
    },
    wire::{decode::EstimateSpec, v1},
};

/// Charged to the tenant for its time, since a stored program may be long and its id is short.
///
/// Errors: `NotFound` for the program; `Invalid` for an output that no step makes; `Exhausted` if
/// the tenant has used up its device time.
pub fn charged_estimate(call: &CallContext, spec: EstimateSpec) -> Result<v1::EstimateResponse> {
    call.check_debt()?;
    let begun = Instant::now();
    let estimate = estimate(call, spec);
    call.tenant.device_time.charge(begun.elapsed());
    estimate
}

fn estimate(call: &CallContext, spec: EstimateSpec) -> Result<v1::EstimateResponse> {
    let EstimateSpec { program, outputs, verify } = spec;
    let state = &call.state;
    let program = find_program(call, program)?;
    let outputs = if outputs.is_empty() { unread(&program) } else { outputs };
    let bytes = |value: &ValueId| program.shape(*value).map_or(0, VectorShape::bytes);
    let output_bytes = outputs.iter().map(bytes).sum();
    // In the longest encoding of points.
    let point_bytes = |value: &ValueId| match program.value_type(*value) {
        Some(ValueType::Points(points)) => {
            u64::from(points.count) * SumEncoding::Projective.point_bytes(points.group) as u64
        }
        _ => 0,
    };
    let point_bytes = outputs.iter().map(point_bytes).sum();
    let response_bytes = unread_bytes(&program, output_bytes, point_bytes);
    let input_bytes = program.operands(ExternalOperand::Input).map(|input| bytes(&input)).sum();
    let inputs = program.operands(ExternalOperand::Input).map(|input| {
        let field = program.shape(input).map_or(FieldId::Bls12381Fr, VectorShape::field);
        let count = program.shape(input).map_or(0, VectorShape::elements);
        InputSpec::new(ScalarEncoding::in_memory(field), count)
    });
    let inputs: Vec<_> = inputs.collect();
    let wanted = |value: &ValueId| OutputSpec {
        value: *value,
        kind: match program.shape(*value) {
            Some(_) => OutputKind::Elements,
            None => OutputKind::Points,
        },
    };
    let wanted: Vec<_> = outputs.iter().map(wanted).collect();
    let executor = &*state.compute.executor;
    let run = start_run(executor, program.clone(), &inputs, &wanted, verify)?;
    let plan = run.plan();
    let time_ahead = as_micros_u64(state.backlog.modelled());
    let own_time = as_micros_u64(state.backlog.modelled_of(call.tenant.id));
    let DeviceInfo { name, kind, .. } = state.compute.executor.description();
    Ok(v1::EstimateResponse {
        input_bytes,
        output_bytes,
        value_bytes: plan.value_bytes,
        scratch_bytes: plan.memory_bytes - plan.value_bytes + response_bytes,
        engine: kind.into(),
        device: name,
        jobs_ahead: call.visible_use(state.budget.jobs.used(), call.tenant.jobs.used()) as u32,
        time_ahead_us: Some(call.visible_use(time_ahead, own_time)),
        modelled_time_us: as_micros_u64(plan.modelled.total),
    })
}

/// The values that no step reads.
fn unread(program: &OperationProgram) -> Vec<ValueId> {
    let read: HashSet<_> = program.steps().iter().flat_map(|step| step.inputs().ids()).collect();
    program.ids().filter(|value| !read.contains(value)).collect()
}
