//! The messages of steps. Kinds whose messages have the fields of their specification are listed in
//! `same_fields`; the others read and write their message below.

use bytes::Bytes;
use capstan_math::{
    curve::{Fr, Group, NttPlan},
    error::{FieldProblem, Result},
    field::FieldId,
    operation::{self, *},
    program::{Constant, StepProblem, ValueId},
};

use crate::{
    enums::specified,
    parts::{self, canonical, coset, direction, indices, is_inverse, is_reversed, order, values},
    v1::{self, poly_mul_step::Reduction, step::Operation as Message},
};

/// A kind of step, as the contract has it.
trait StepMessage: Sized {
    type Message;

    /// Errors: for the first field that is wrong, whatever the step reads.
    fn decode(message: Self::Message) -> Result<Self, StepProblem>;

    fn encode(&self) -> Self::Message;
}

/// Finds the message of each kind, which has its name.
macro_rules! messages {
    ($($variant:ident $name:ident $step:ident,)+) => {
        /// Errors: `Invalid` for the first field that is wrong.
        pub fn decode(index: usize, message: Message) -> Result<Operation> {
            match message {
                $(Message::$variant(message) => {
                    let step = operation::$step::decode(message).map(Operation::from);
                    step.map_err(|problem| problem.of_step(index, stringify!($name)))
                })+
            }
        }

        fn encode(step: &Operation) -> Message {
            match step { $(Operation::$variant(step) => Message::$variant(step.encode())),+ }
        }
    };
}

operation::with_operations!(messages);

/// The message of a program of these steps.
pub fn message(steps: &[Operation]) -> v1::Program {
    let message = |step| v1::Step { operation: Some(encode(step)) };
    v1::Program { steps: steps.iter().map(message).collect() }
}

/// A field of a step that any field `M` of a message gives.
trait SameField<M> {
    fn read(field: M) -> Self;
    fn write(&self) -> M;
}

impl SameField<u32> for ValueId {
    fn read(field: u32) -> Self {
        Self(field)
    }

    fn write(&self) -> u32 {
        self.0
    }
}

impl SameField<Vec<u32>> for Vec<ValueId> {
    fn read(field: Vec<u32>) -> Self {
        values(&field)
    }

    fn write(&self) -> Vec<u32> {
        indices(self)
    }
}

/// Fields that are stored as they are sent.
impl<T: Clone> SameField<T> for T {
    fn read(field: T) -> Self {
        field
    }

    fn write(&self) -> T {
        self.clone()
    }
}

/// Reads and writes messages that have the fields of their steps.
macro_rules! same_fields {
    ($($step:ident { $($field:ident),+ })+) => {
        $(impl StepMessage for $step {
            type Message = v1::$step;

            fn decode(message: v1::$step) -> Result<Self, StepProblem> {
                Ok(Self { $($field: SameField::read(message.$field)),+ })
            }

            fn encode(&self) -> v1::$step {
                v1::$step { $($field: self.$field.write()),+ }
            }
        })+
    };
}

same_fields! {
    ConcatStep { inputs }
    Gf2EchelonStep { input, columns }
    IntMulStep { inputs }
    IntSumStep { inputs, factors, length }
    PadStep { input, length }
    PrefixProductStep { input }
    ReshapeStep { input, rows }
    SliceStep { input, offset, length }
}

impl StepMessage for InputStep {
    type Message = v1::InputStep;

    fn decode(message: v1::InputStep) -> Result<Self, StepProblem> {
        let v1::InputStep { field, rows, length } = message;
        Ok(Self { field: any_field(field)?, rows: rows.max(1), length })
    }

    fn encode(&self) -> v1::InputStep {
        let Self { field, rows, length } = *self;
        v1::InputStep { field: v1::Field::from(field).into(), rows, length }
    }
}

impl StepMessage for ConstantStep {
    type Message = v1::ConstantStep;

    fn decode(message: v1::ConstantStep) -> Result<Self, StepProblem> {
        let field = arithmetic_field(message.field)?;
        let width = field.element_bytes() as usize;
        let elements = constants("elements", &message.elements, width)?;
        Ok(Self { field, elements })
    }

    fn encode(&self) -> v1::ConstantStep {
        let field = v1::Field::from(self.field).into();
        let elements = canonical(&self.elements);
        v1::ConstantStep { field, elements }
    }
}

impl StepMessage for PowersStep {
    type Message = v1::PowersStep;

    fn decode(message: v1::PowersStep) -> Result<Self, StepProblem> {
        let field = arithmetic_field(message.field)?;
        let first = match &message.first[..] {
            [] => Constant::one(field),
            first => named_constant("first", first)?,
        };
        let base = named_constant("base", &message.base)?;
        Ok(Self { field, base, first, length: message.length })
    }

    fn encode(&self) -> v1::PowersStep {
        let Self { field, base, first, length } = *self;
        let [base, first] = [base, first].map(|constant| canonical(&[constant]));
        v1::PowersStep { field: v1::Field::from(field).into(), base, first, length }
    }
}

impl StepMessage for NttStep {
    type Message = v1::NttStep;

    fn decode(message: v1::NttStep) -> Result<Self, StepProblem> {
        let v1::NttStep { lg_n, direction, coset_generator, input_order, output_order, .. } =
            message;
        let named = |field| move |problem| StepProblem::field(field, problem);
        let plan = NttPlan {
            lg_n,
            inverse: is_inverse(direction).map_err(named("direction"))?,
            coset: coset(&coset_generator).map_err(named("coset_generator"))?,
            input_reversed: is_reversed(input_order).map_err(named("input_order"))?,
            output_reversed: is_reversed(output_order).map_err(named("output_order"))?,
        };
        Ok(Self { input: ValueId(message.input), plan })
    }

    fn encode(&self) -> v1::NttStep {
        let NttPlan { lg_n, inverse, coset, input_reversed, output_reversed } = self.plan;
        v1::NttStep {
            input: self.input.0,
            lg_n,
            direction: direction(inverse).into(),
            coset_generator: coset.map_or_else(Bytes::new, |generator| canonical(&[generator])),
            input_order: order(input_reversed).into(),
            output_order: order(output_reversed).into(),
        }
    }
}

impl StepMessage for PointwiseStep {
    type Message = v1::PointwiseStep;

    fn decode(message: v1::PointwiseStep) -> Result<Self, StepProblem> {
        let operation = specified(message.operation)
            .and_then(|known: v1::PointwiseOperation| PointwiseOperation::try_from(known));
        let operation = operation.map_err(|problem| StepProblem::field("operation", problem))?;
        Ok(Self { operation, inputs: values(&message.inputs) })
    }

    fn encode(&self) -> v1::PointwiseStep {
        let operation = v1::PointwiseOperation::from(self.operation).into();
        v1::PointwiseStep { operation, inputs: indices(&self.inputs) }
    }
}

impl StepMessage for LinearCombinationStep {
    type Message = v1::LinearCombinationStep;

    fn decode(message: v1::LinearCombinationStep) -> Result<Self, StepProblem> {
        let v1::LinearCombinationStep { inputs, factors } = message;
        // One per input, so the width follows.
        let are_words = factors.len() == 4 * inputs.len();
        let factors = constants("factors", &factors, if are_words { 4 } else { 32 })?;
        Ok(Self { inputs: values(&inputs), factors })
    }

    fn encode(&self) -> v1::LinearCombinationStep {
        let (inputs, factors) = (indices(&self.inputs), canonical(&self.factors));
        v1::LinearCombinationStep { inputs, factors }
    }
}

impl StepMessage for EvaluateStep {
    type Message = v1::EvaluateStep;

    fn decode(message: v1::EvaluateStep) -> Result<Self, StepProblem> {
        let v1::EvaluateStep { input, point } = message;
        Ok(Self { input: ValueId(input), point: named_constant("point", &point)? })
    }

    fn encode(&self) -> v1::EvaluateStep {
        v1::EvaluateStep { input: self.input.0, point: canonical(&[self.point]) }
    }
}

impl StepMessage for DivideByLinearStep {
    type Message = v1::DivideByLinearStep;

    fn decode(message: v1::DivideByLinearStep) -> Result<Self, StepProblem> {
        let v1::DivideByLinearStep { input, point } = message;
        Ok(Self { input: ValueId(input), point: element("point", &point)? })
    }

    fn encode(&self) -> v1::DivideByLinearStep {
        v1::DivideByLinearStep { input: self.input.0, point: canonical(&[self.point.into()]) }
    }
}

impl StepMessage for DivideByVanishingStep {
    type Message = v1::DivideByVanishingStep;

    fn decode(message: v1::DivideByVanishingStep) -> Result<Self, StepProblem> {
        let v1::DivideByVanishingStep { input, lg_n, coset_generator } = message;
        let coset_generator = element("coset_generator", &coset_generator)?;
        Ok(Self { input: ValueId(input), lg_n, coset_generator })
    }

    fn encode(&self) -> v1::DivideByVanishingStep {
        let Self { input, lg_n, coset_generator } = *self;
        let coset_generator = canonical(&[coset_generator.into()]);
        v1::DivideByVanishingStep { input: input.0, lg_n, coset_generator }
    }
}

impl StepMessage for MsmStep {
    type Message = v1::MsmStep;

    fn decode(message: v1::MsmStep) -> Result<Self, StepProblem> {
        let v1::MsmStep { input, group, object_id, offset } = message;
        let group = specified(group).and_then(|group: v1::Group| Group::try_from(group));
        let group = group.map_err(|problem| StepProblem::field("group", problem))?;
        let object_id = stored_object(&object_id)?;
        Ok(Self { input: ValueId(input), group, object_id, offset })
    }

    fn encode(&self) -> v1::MsmStep {
        let &Self { input, group, ref object_id, offset } = self;
        let object_id = Bytes::copy_from_slice(object_id);
        v1::MsmStep { input: input.0, group: v1::Group::from(group).into(), object_id, offset }
    }
}

impl StepMessage for SparseProductStep {
    type Message = v1::SparseProductStep;

    fn decode(message: v1::SparseProductStep) -> Result<Self, StepProblem> {
        let v1::SparseProductStep { input, object_id, rows, terms } = message;
        let object_id = stored_object(&object_id)?;
        Ok(Self { input: ValueId(input), object_id, rows, terms })
    }

    fn encode(&self) -> v1::SparseProductStep {
        let &Self { input, ref object_id, rows, terms } = self;
        let object_id = Bytes::copy_from_slice(object_id);
        v1::SparseProductStep { input: input.0, object_id, rows, terms }
    }
}

impl StepMessage for PolyMulStep {
    type Message = v1::PolyMulStep;

    fn decode(message: v1::PolyMulStep) -> Result<Self, StepProblem> {
        let reduction = match message.reduction {
            None => PolyReduction::None,
            Some(Reduction::Cyclic(n)) => PolyReduction::Cyclic(n),
            Some(Reduction::Negacyclic(n)) => PolyReduction::Negacyclic(n),
        };
        Ok(Self { inputs: values(&message.inputs), reduction })
    }

    fn encode(&self) -> v1::PolyMulStep {
        let reduction = match self.reduction {
            PolyReduction::None => None,
            PolyReduction::Cyclic(n) => Some(Reduction::Cyclic(n)),
            PolyReduction::Negacyclic(n) => Some(Reduction::Negacyclic(n)),
        };
        v1::PolyMulStep { inputs: indices(&self.inputs), reduction }
    }
}

impl StepMessage for Gf2ReduceStep {
    type Message = v1::Gf2ReduceStep;

    fn decode(message: v1::Gf2ReduceStep) -> Result<Self, StepProblem> {
        let v1::Gf2ReduceStep { pivots, rows, columns } = message;
        Ok(Self { inputs: [pivots, rows].map(ValueId), columns })
    }

    fn encode(&self) -> v1::Gf2ReduceStep {
        let Self { inputs: [pivots, rows], columns } = *self;
        v1::Gf2ReduceStep { pivots: pivots.0, rows: rows.0, columns }
    }
}

fn stored_object(id: &[u8]) -> Result<[u8; 32], StepProblem> {
    id.try_into().map_err(|_| StepProblem::field("object_id", FieldProblem::UnknownId))
}

fn any_field(value: i32) -> Result<FieldId, StepProblem> {
    let field = specified(value).and_then(|field: v1::Field| FieldId::try_from(field));
    field.map_err(|problem| StepProblem::field("field", problem))
}

/// The field of a step with constants.
fn arithmetic_field(value: i32) -> Result<FieldId, StepProblem> {
    let field = any_field(value)?;
    let refused = StepProblem::field("field", FieldProblem::UnsupportedField { field });
    field.has_arithmetic().then_some(field).ok_or(refused)
}

fn element(name: &'static str, bytes: &[u8]) -> Result<Fr, StepProblem> {
    parts::element(bytes).map_err(|problem| StepProblem::field(name, problem))
}

fn named_constant(name: &'static str, bytes: &[u8]) -> Result<Constant, StepProblem> {
    parts::constant(bytes).map_err(|problem| StepProblem::field(name, problem))
}

/// Elements of `width` bytes, concatenated.
fn constants(name: &'static str, bytes: &[u8], width: usize) -> Result<Vec<Constant>, StepProblem> {
    if !bytes.len().is_multiple_of(width) {
        let (expected, got) = (bytes.len().next_multiple_of(width) as u64, bytes.len() as u64);
        return Err(StepProblem::field(name, FieldProblem::Length { expected, got }));
    }
    let decoded = bytes.chunks_exact(width).enumerate().map(|(index, bytes)| {
        parts::constant(bytes).map_err(|problem| StepProblem::element(name, index, problem))
    });
    decoded.collect()
}
