//! Decodes programs.

use prost::Message;

use super::{
    ntt::{constant as constant_element, coset, element, is_inverse, is_reversed},
    specified,
};
use crate::{
    curve::{Fr, Group, NttPlan},
    error::{Error, FieldProblem, Result},
    field::FieldId,
    ops::{
        ConcatStep, ConstantStep, DivideByLinearStep, DivideByVanishingStep, EvaluateStep,
        Gf2EchelonStep, Gf2ReduceStep, InputStep, IntMulStep, IntSumStep, LinearCombinationStep,
        MsmStep, NttStep, Operation, OperationProgram, PadStep, PointwiseOperation, PointwiseStep,
        PolyMulStep, PolyReduction, PowersStep, ReshapeStep, SliceStep, SparseProductStep,
    },
    program::{Constant, STEPS_MAX, StepProblem, ValueId},
    wire::v1::{self, step::Operation as WireOperation},
};

/// The content hash that names a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(pub [u8; 32]);

/// Separates the ids of programs from other hashes.
const ID_CONTEXT: &str = "capstan v1 program";

type StepResult<T> = Result<T, StepProblem>;

/// What identifies a program, valid or not.
pub struct ProgramName {
    pub id: ProgramId,
    /// Bytes of its message.
    pub bytes: usize,
}

impl ProgramName {
    pub fn of(program: &v1::Program) -> Self {
        // prost writes fields in the order of their numbers, and drops unknown fields.
        let encoded = program.encode_to_vec();
        Self { id: ProgramId(blake3::derive_key(ID_CONTEXT, &encoded)), bytes: encoded.len() }
    }
}

/// Errors: `Invalid` for the list of steps; `Item` and `Step` for the first step that is wrong.
pub fn program(program: v1::Program) -> Result<OperationProgram> {
    let count = program.steps.len();
    if count > STEPS_MAX {
        return Err(Error::field("program.steps", FieldProblem::too_long(STEPS_MAX, count)));
    }
    let steps = program.steps.into_iter().enumerate().map(|(index, step)| {
        let missing = Error::item("program.steps", index, "operation", FieldProblem::Missing);
        operation(index, step.operation.ok_or(missing)?)
    });
    OperationProgram::new(steps.collect::<Result<_>>()?)
}

fn operation(index: usize, step: WireOperation) -> Result<Operation> {
    // The name of the step's kind in errors about its fields.
    let named = |name| move |problem: StepProblem| problem.of_step(index, name);
    Ok(match step {
        WireOperation::Input(step) => input(&step).map_err(named("input"))?.into(),
        WireOperation::Constant(step) => constant(&step).map_err(named("constant"))?.into(),
        WireOperation::Powers(step) => powers(&step).map_err(named("powers"))?.into(),
        WireOperation::Ntt(step) => ntt(&step).map_err(named("ntt"))?.into(),
        WireOperation::Pointwise(step) => pointwise(&step).map_err(named("pointwise"))?.into(),
        WireOperation::LinearCombination(step) => {
            linear_combination(&step).map_err(named("linear_combination"))?.into()
        }
        WireOperation::Slice(v1::SliceStep { input, offset, length }) => {
            SliceStep { input: ValueId(input), offset, length }.into()
        }
        WireOperation::Concat(step) => ConcatStep { inputs: values(&step.inputs) }.into(),
        WireOperation::Pad(v1::PadStep { input, length }) => {
            PadStep { input: ValueId(input), length }.into()
        }
        WireOperation::Evaluate(step) => evaluate(&step).map_err(named("evaluate"))?.into(),
        WireOperation::DivideByLinear(step) => {
            divide_by_linear(&step).map_err(named("divide_by_linear"))?.into()
        }
        WireOperation::DivideByVanishing(step) => {
            divide_by_vanishing(&step).map_err(named("divide_by_vanishing"))?.into()
        }
        WireOperation::Msm(step) => msm(&step).map_err(named("msm"))?.into(),
        WireOperation::SparseProduct(step) => {
            sparse_product(&step).map_err(named("sparse_product"))?.into()
        }
        WireOperation::PolyMul(step) => poly_mul(&step).into(),
        WireOperation::Gf2Reduce(v1::Gf2ReduceStep { pivots, rows, columns }) => {
            Gf2ReduceStep { inputs: [pivots, rows].map(ValueId), columns }.into()
        }
        WireOperation::Gf2Echelon(v1::Gf2EchelonStep { input, columns }) => {
            Gf2EchelonStep { input: ValueId(input), columns }.into()
        }
        WireOperation::IntMul(step) => IntMulStep { inputs: values(&step.inputs) }.into(),
        WireOperation::IntSum(v1::IntSumStep { inputs, factors, length }) => {
            IntSumStep { inputs: values(&inputs), factors, length }.into()
        }
        WireOperation::Reshape(v1::ReshapeStep { input, rows }) => {
            ReshapeStep { input: ValueId(input), rows }.into()
        }
    })
}

fn input(step: &v1::InputStep) -> StepResult<InputStep> {
    let field = field(step.field)?;
    Ok(InputStep { field, rows: step.rows.max(1), length: step.length })
}

fn constant(step: &v1::ConstantStep) -> StepResult<ConstantStep> {
    let field = arithmetic_field(step.field)?;
    let width = field.element_bytes() as usize;
    Ok(ConstantStep { field, elements: constants("elements", &step.elements, width)? })
}

fn powers(step: &v1::PowersStep) -> StepResult<PowersStep> {
    let field = arithmetic_field(step.field)?;
    let first = match &step.first[..] {
        [] => Constant::one(field),
        first => named_constant("first", first)?,
    };
    let base = named_constant("base", &step.base)?;
    Ok(PowersStep { field, base, first, length: step.length })
}

fn ntt(step: &v1::NttStep) -> StepResult<NttStep> {
    let named = |field| move |problem| StepProblem::field(field, problem);
    let plan = NttPlan {
        lg_n: step.lg_n,
        inverse: is_inverse(step.direction).map_err(named("direction"))?,
        coset: coset(&step.coset_generator).map_err(named("coset_generator"))?,
        input_reversed: is_reversed(step.input_order).map_err(named("input_order"))?,
        output_reversed: is_reversed(step.output_order).map_err(named("output_order"))?,
    };
    Ok(NttStep { input: ValueId(step.input), plan })
}

fn pointwise(step: &v1::PointwiseStep) -> StepResult<PointwiseStep> {
    let operation = specified(step.operation)
        .and_then(|known: v1::PointwiseOperation| PointwiseOperation::try_from(known));
    let operation = operation.map_err(|problem| StepProblem::field("operation", problem))?;
    Ok(PointwiseStep { operation, inputs: values(&step.inputs) })
}

fn linear_combination(step: &v1::LinearCombinationStep) -> StepResult<LinearCombinationStep> {
    // One per input, so the width follows.
    let are_words = step.factors.len() == 4 * step.inputs.len();
    let factors = constants("factors", &step.factors, if are_words { 4 } else { 32 })?;
    Ok(LinearCombinationStep { inputs: values(&step.inputs), factors })
}

fn evaluate(step: &v1::EvaluateStep) -> StepResult<EvaluateStep> {
    Ok(EvaluateStep { input: ValueId(step.input), point: named_constant("point", &step.point)? })
}

fn divide_by_linear(step: &v1::DivideByLinearStep) -> StepResult<DivideByLinearStep> {
    let point = named_element("point", &step.point)?;
    Ok(DivideByLinearStep { input: ValueId(step.input), point })
}

fn divide_by_vanishing(step: &v1::DivideByVanishingStep) -> StepResult<DivideByVanishingStep> {
    let coset_generator = named_element("coset_generator", &step.coset_generator)?;
    Ok(DivideByVanishingStep { input: ValueId(step.input), lg_n: step.lg_n, coset_generator })
}

fn msm(step: &v1::MsmStep) -> StepResult<MsmStep> {
    let group = specified(step.group).and_then(|group: v1::Group| Group::try_from(group));
    Ok(MsmStep {
        input: ValueId(step.input),
        group: group.map_err(|problem| StepProblem::field("group", problem))?,
        object_id: object_id(&step.object_id)?,
        offset: step.offset,
    })
}

fn sparse_product(step: &v1::SparseProductStep) -> StepResult<SparseProductStep> {
    let &v1::SparseProductStep { input, ref object_id, rows, terms } = step;
    let object_id = self::object_id(object_id)?;
    Ok(SparseProductStep { input: ValueId(input), object_id, rows, terms })
}

fn poly_mul(step: &v1::PolyMulStep) -> PolyMulStep {
    let reduction = match step.reduction {
        None => PolyReduction::None,
        Some(v1::poly_mul_step::Reduction::Cyclic(n)) => PolyReduction::Cyclic(n),
        Some(v1::poly_mul_step::Reduction::Negacyclic(n)) => PolyReduction::Negacyclic(n),
    };
    PolyMulStep { inputs: values(&step.inputs), reduction }
}

fn object_id(id: &[u8]) -> StepResult<[u8; 32]> {
    id.try_into().map_err(|_| StepProblem::field("object_id", FieldProblem::UnknownId))
}

fn field(value: i32) -> StepResult<FieldId> {
    let field = specified(value).and_then(|field: v1::Field| FieldId::try_from(field));
    field.map_err(|problem| StepProblem::field("field", problem))
}

/// The field of a step with constants.
fn arithmetic_field(value: i32) -> StepResult<FieldId> {
    let field = field(value)?;
    let refused = StepProblem::field("field", FieldProblem::UnsupportedField { field });
    field.has_arithmetic().then_some(field).ok_or(refused)
}

pub(super) fn values(indices: &[u32]) -> Vec<ValueId> {
    indices.iter().copied().map(ValueId).collect()
}

fn named_element(name: &'static str, bytes: &[u8]) -> StepResult<Fr> {
    element(bytes).map_err(|problem| StepProblem::field(name, problem))
}

fn named_constant(name: &'static str, bytes: &[u8]) -> StepResult<Constant> {
    constant_element(bytes).map_err(|problem| StepProblem::field(name, problem))
}

/// Elements of `width` bytes, concatenated.
fn constants(name: &'static str, bytes: &[u8], width: usize) -> StepResult<Vec<Constant>> {
    if !bytes.len().is_multiple_of(width) {
        let (expected, got) = (bytes.len().next_multiple_of(width) as u64, bytes.len() as u64);
        return Err(StepProblem::field(name, FieldProblem::Length { expected, got }));
    }
    let decoded = bytes.chunks_exact(width).enumerate().map(|(index, bytes)| {
        constant_element(bytes).map_err(|problem| StepProblem::element(name, index, problem))
    });
    decoded.collect()
}
