//! A checked call: which steps it runs, and what each of them reads.

use std::{iter, sync::Arc, time::Duration};

use super::{AwaitedElements, ModelledTime, RunOperands, RunReport, StepReport};
use crate::{
    curve::points::Bases,
    engines::{EncodedScalars, EngineWork, ExecutedBy},
    error::{Error, FieldPath, InputError, Result},
    field::FieldId,
    ops::{
        OperationProgram,
        host::{self, EncodedRows, HostArgument, HostStep, HostValue, StepTypes},
        on_host,
    },
    program::{
        ExternalOperand, InputSpec, Liveness, OutputSpec, ResultMemory, StepKind, StepProblem,
        ValueId, ValueType, VectorShape, check_call,
    },
    sparse::SparseMatrix,
};

/// The only step of a call, apart from that of its input.
pub struct OnlyStep {
    pub id: ValueId,
    /// The shape of the input.
    pub input: VectorShape,
}

pub struct RunCall {
    pub program: Arc<OperationProgram>,
    pub liveness: Liveness,
    /// Whether a run checks the values of all steps that have a probabilistic check.
    pub is_checked: bool,
    input_specs: Vec<InputSpec>,
    output_specs: Vec<OutputSpec>,
    /// The steps that take an input of the call, in the order of the inputs.
    inputs: Vec<ValueId>,
    /// The steps that take stored bases, in the order of the bases.
    bases: Vec<ValueId>,
    /// The steps that take a stored matrix, in the order of the matrices.
    matrices: Vec<ValueId>,
    /// For each value, the numbers of the outputs that want it.
    wanted: Vec<Vec<usize>>,
}

impl RunCall {
    pub fn new(
        program: Arc<OperationProgram>,
        given: &[InputSpec],
        outputs: &[OutputSpec],
        is_checked: bool,
    ) -> Result<Self> {
        let memory = if is_checked { ResultMemory::New } else { ResultMemory::Reused };
        let values: Vec<_> = outputs.iter().map(|output| output.value).collect();
        let liveness = Liveness::new(&program, &values, memory)?;
        check_call(&program, &liveness, given, outputs)?;
        let [inputs, bases, matrices] =
            [ExternalOperand::Input, ExternalOperand::Bases, ExternalOperand::Matrix]
                .map(|operand| program.operands(operand).collect());
        let mut wanted = vec![Vec::new(); program.steps().len()];
        for (number, value) in values.iter().enumerate() {
            wanted[value.index()].push(number);
        }
        Ok(Self {
            program,
            liveness,
            is_checked,
            input_specs: given.to_vec(),
            output_specs: outputs.to_vec(),
            inputs,
            bases,
            matrices,
            wanted,
        })
    }

    /// What the call gives for each input.
    pub fn input_specs(&self) -> &[InputSpec] {
        &self.input_specs
    }

    /// What the call wants.
    pub fn output_specs(&self) -> &[OutputSpec] {
        &self.output_specs
    }

    /// The elements of a vector, of all rows; 0 for points.
    pub fn elements_of(&self, id: ValueId) -> u64 {
        self.program.shape(id).map_or(0, VectorShape::elements)
    }

    /// The report before the first step.
    pub fn new_report(&self, engine: &'static str, device: String) -> RunReport {
        let points = self.wanted.iter().flatten().map(|_| None).collect();
        let steps = self.program.steps().iter().map(|step| StepReport::not_run(step.name()));
        let executor = ExecutedBy { engine, device, ..ExecutedBy::default() };
        RunReport { points, steps: steps.collect(), executor }
    }

    pub fn value_type(&self, id: ValueId) -> Result<ValueType> {
        let known = self.program.value_type(id);
        known.ok_or_else(|| Error::Internal("no such step".into()))
    }

    /// The first step from `start` on that makes a value.
    pub fn next_from(&self, start: usize) -> Option<ValueId> {
        let rest = self.program.ids().skip(start);
        let mut needed = rest.filter(|id| self.liveness.is_needed(*id));
        needed.find(|id| !self.liveness.stays_encoded(*id))
    }

    pub fn step(&self, id: ValueId) -> &dyn HostStep {
        on_host(&self.program.steps()[id.index()])
    }

    /// The values that the step reads.
    pub fn inputs_of(&self, id: ValueId) -> &[ValueId] {
        self.program.steps()[id.index()].inputs().ids()
    }

    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// All elements of the input of this number; `None` if there are fewer inputs.
    pub fn whole_input(&self, number: usize) -> Option<AwaitedElements> {
        let shape = self.program.shape(*self.inputs.get(number)?)?;
        Some(AwaitedElements { input: number, elements: 0..shape.elements() })
    }

    /// The step that makes the only output, if it reads the only input and no other is needed.
    pub fn only_step(&self) -> Option<OnlyStep> {
        let &[input] = self.inputs.as_slice() else { return None };
        let mut needed = self.program.ids().filter(|id| self.liveness.is_needed(*id));
        let (Some(first), Some(id), None) = (needed.next(), needed.next(), needed.next()) else {
            return None;
        };
        let is_only = first == input && self.inputs_of(id) == [input] && !self.is_output(input);
        let shape =
            self.program.shape(input).filter(|_| is_only && self.outputs_of(id).len() == 1)?;
        Some(OnlyStep { id, input: shape })
    }

    /// The numbers of the outputs that want a value.
    pub fn outputs_of(&self, id: ValueId) -> &[usize] {
        &self.wanted[id.index()]
    }

    pub fn is_output(&self, id: ValueId) -> bool {
        !self.outputs_of(id).is_empty()
    }

    /// The limbs of all values that a run makes; `None` if one of them is not a vector of integers.
    pub fn integer_limbs(&self) -> Option<u64> {
        let limbs = |id| {
            let shape = self.program.shape(id).filter(|shape| shape.field() == FieldId::Integers);
            shape.map(VectorShape::elements)
        };
        self.ids_to_run().try_fold(0_u64, |sum, id| Some(sum.saturating_add(limbs(id)?)))
    }

    /// The bytes of the vectors that are outputs, each counted once.
    pub fn output_bytes(&self) -> u64 {
        let outputs = self.program.ids().filter(|id| self.is_output(*id));
        let shapes = outputs.filter_map(|id| self.program.shape(id));
        shapes.map(VectorShape::bytes).fold(0, u64::saturating_add)
    }

    /// Whether step `id` makes a vector of one of the call's inputs.
    pub fn is_input(&self, id: ValueId) -> bool {
        self.inputs.binary_search(&id).is_ok()
    }

    /// Whether step `id` reads an input of the call that no step decodes.
    pub fn reads_encoded(&self, id: ValueId) -> bool {
        self.inputs_of(id).iter().any(|input| self.liveness.stays_encoded(*input))
    }

    /// The input step whose elements step `id` decodes: itself, or one that stays encoded.
    fn decoded_by(&self, id: ValueId) -> Option<ValueId> {
        let mut inputs = self.inputs_of(id).iter().copied();
        let encoded = || inputs.find(|input| self.liveness.stays_encoded(*input));
        self.is_input(id).then_some(id).or_else(encoded)
    }

    /// The number of the call's input that step `id` decodes.
    pub fn input_number(&self, id: ValueId) -> Option<usize> {
        self.inputs.binary_search(&self.decoded_by(id)?).ok()
    }

    /// The first step that decodes the call's input of this number.
    pub fn first_reader(&self, input: usize) -> Option<ValueId> {
        self.ids_to_run().find(|id| self.input_number(*id) == Some(input))
    }

    /// The elements that step `id` decodes, numbered within their input.
    pub fn elements<'a>(
        &self,
        id: ValueId,
        operands: &RunOperands<'a>,
    ) -> Option<EncodedScalars<'a>> {
        operands.inputs.get(self.input_number(id)?).copied()
    }

    /// The bases that step `id` uses, of those of all steps.
    pub fn bases<'a>(&self, id: ValueId, all: &'a [Bases]) -> Option<&'a Bases> {
        all.get(self.bases.binary_search(&id).ok()?)
    }

    /// The matrix that step `id` uses, of those of all steps.
    pub fn matrix<'a>(&self, id: ValueId, all: &'a [SparseMatrix]) -> Option<&'a SparseMatrix> {
        all.get(self.matrices.binary_search(&id).ok()?)
    }

    /// What step `id` reads. `overwritten` is the value that it may overwrite.
    pub fn arguments<'a>(
        &self,
        id: ValueId,
        operands: &RunOperands<'a>,
        values: &'a [Option<HostValue>],
        mut overwritten: Option<HostValue>,
    ) -> Result<Vec<HostArgument<'a>>> {
        let missing = || Error::Internal("a value is missing".into());
        let argument = |input: &ValueId| {
            if self.liveness.stays_encoded(*input) {
                let elements = self.elements(id, operands).ok_or_else(missing)?;
                let shape = self.program.shape(*input).ok_or_else(missing)?;
                let (rows, length) = (shape.rows() as usize, shape.length() as usize);
                return Ok(HostArgument::Encoded(EncodedRows { elements, rows, length }));
            }
            match &values[input.index()] {
                Some(HostValue::Vector(rows)) => Ok(HostArgument::Borrowed(rows)),
                Some(HostValue::Points(_)) => Err(missing()),
                None => match overwritten.take() {
                    Some(HostValue::Vector(rows)) => Ok(HostArgument::Owned(rows)),
                    _ => Err(missing()),
                },
            }
        };
        self.inputs_of(id).iter().map(argument).collect()
    }

    /// Names the input step in an error about an element that step `id` decodes, and step `id` in
    /// an error about one of its fields.
    pub fn name_element(&self, id: ValueId, error: Error) -> Error {
        let Error::Input(InputError::Invalid { path: FieldPath::Field(field), index, problem }) =
            error
        else {
            return error;
        };
        let of_element = |name, index| StepProblem::element(name, index as usize, problem);
        let named = match (index, self.decoded_by(id)) {
            (Some(index), Some(input)) => {
                self.program.step_error(input, of_element("elements", index))
            }
            (None, Some(_)) => return error,
            (Some(index), None) => self.program.step_error(id, of_element(field, index)),
            (None, None) => self.program.step_error(id, StepProblem::field(field, problem)),
        };
        named.into()
    }

    /// The steps that a run computes, in order.
    pub fn ids_to_run(&self) -> impl Iterator<Item = ValueId> {
        iter::successors(self.next_from(0), |id| self.next_from(id.index() + 1))
    }

    /// The types of the values that the step reads.
    pub fn input_types(&self, id: ValueId) -> Vec<ValueType> {
        let inputs = self.inputs_of(id).iter();
        inputs.filter_map(|input| self.program.value_type(*input)).collect()
    }

    /// The modelled time of the run, from that of its work.
    pub fn modelled_time(&self, time: impl Fn(&EngineWork) -> Duration) -> ModelledTime {
        let of_step = |id| {
            let times = self.work(id).into_iter().map(|work| time(&work));
            (id, times.fold(Duration::ZERO, Duration::saturating_add))
        };
        ModelledTime::of_steps(self.ids_to_run().map(of_step))
    }

    /// The work of step `id`, of its check, and of copies from and to the caller.
    fn work(&self, id: ValueId) -> Vec<EngineWork> {
        let Some(value) = self.program.value_type(id) else { return Vec::new() };
        let inputs = self.input_types(id);
        let types = StepTypes { inputs: &inputs, value };
        let step = self.step(id);
        let mut all = step.work(&types);
        if self.is_checked {
            all.extend(step.check_work(&types));
        }
        if self.reads_encoded(id) {
            let bytes = inputs.iter().copied().map(host::vector_bytes).sum();
            all.push(EngineWork::Transfer { bytes });
        }
        let sent = self.outputs_of(id).iter().map(|_| host::vector_bytes(value));
        all.extend(sent.map(|bytes| EngineWork::Transfer { bytes }));
        all
    }
}
