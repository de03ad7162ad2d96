//! What runs programs: a server through its client, a fleet of servers, or the engine in this
//! process. Proof systems are written for any of them.

use std::{fmt, future::ready, sync::Arc, time::Duration};

use ark_ff::Zero;
use bytemuck::Zeroable;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    builder::{BuiltProgram, PointsValue, ProgramBases, ProgramMatrix, ProgramTag, VectorValue},
    curve::{
        Fr,
        layout::fr_as_bytes_mut,
        points::{CurvePoint, MsmSums},
    },
    error::{FieldProblem, InputError, Result},
    field::{FieldId, Prime31},
    program::{ExternalOperand, PointsShape, StepProblem, ValueId, Verification},
    sparse::SparseMatrix,
};

/// Runs programs, and keeps the points and matrices that their steps name.
///
/// Futures end when the work has ended: those of an engine block the thread that polls them. A
/// future that is dropped cancels its work.
pub trait ProgramRunner: Sync {
    /// Why a call failed.
    type Error: std::error::Error + From<InputError> + Send + Sync + 'static;
    /// Elements of an input: its rows, one after another.
    type Input<'a>: From<&'a [Fr]> + From<Vec<Fr>> + Send;

    /// Keeps points for MSM steps.
    ///
    /// Errors: for the first point that is not on the curve or not in the subgroup; if there is no
    /// memory for them.
    fn put_points<A: CurvePoint>(
        &self,
        options: PutOptions,
        points: &[A],
    ) -> impl Future<Output = Result<ProgramBases<A>, Self::Error>> + Send;

    /// Keeps a matrix for sparse products.
    ///
    /// Errors: if there is no memory for it.
    fn put_sparse(
        &self,
        options: PutOptions,
        matrix: &SparseMatrix,
    ) -> impl Future<Output = Result<ProgramMatrix, Self::Error>> + Send;

    /// Runs a program.
    ///
    /// Errors: if inputs or outputs do not suit the program; if a value fails its check.
    fn run_program<'a>(
        &self,
        run: NewRun<'a, Self::Input<'a>>,
        options: RunOptions,
    ) -> impl Future<Output = Result<RunValues, Self::Error>> + Send;

    /// Stores a program that will be run often. By default, runs bring their programs along.
    ///
    /// Errors: if there is no memory for it.
    fn store_program(
        &self,
        program: &BuiltProgram,
    ) -> impl Future<Output = Result<BuiltProgram, Self::Error>> + Send {
        ready(Ok(program.clone()))
    }

    /// What a store that outlives its callers holds. By default, objects live as long as their
    /// handles.
    ///
    /// Errors: if the store does not answer.
    fn store_state(&self) -> impl Future<Output = Result<StoreState, Self::Error>> + Send {
        ready(Ok(StoreState::default()))
    }

    /// Removes an object of such a store.
    ///
    /// Errors: if there is no such object.
    fn release_object(
        &self,
        _id: [u8; 32],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        ready(Ok(()))
    }
}

/// What a store holds.
#[derive(Debug, Clone, Default)]
pub struct StoreState {
    /// The ids of its objects.
    pub objects: Vec<[u8; 32]>,
    /// Bytes of all objects at most; `None` without a limit.
    pub bytes_max: Option<u64>,
}

/// Called with the payload bytes handed to the transport (or received) so far and the total. It
/// runs between chunks, so it must return quickly.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How a server stores bases or a matrix. Engines use `progress` only.
#[derive(Clone, Default)]
pub struct PutOptions {
    /// Label for people: at most 128 bytes of printable text.
    pub label: String,
    /// Store the object in the server's data directory, so that it survives a restart.
    pub persist: bool,
    /// Hold the object in this process as long as its handle or a program that uses it exists. A
    /// call whose server does not know it then puts it again: because the server has restarted, or
    /// because a proxy has chosen another one. Takes a copy of bases, but not of a matrix.
    pub hold: bool,
    /// Called as bytes are sent.
    pub progress: Option<Progress>,
    /// Time limit of the whole call, retries included; defaults to the client's.
    pub deadline: Option<Duration>,
}

/// Options of a run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// How the steps are checked.
    pub verify: Verification,
    /// Time limit of the whole call, retries included; defaults to the client's.
    pub deadline: Option<Duration>,
    /// Called as bytes are sent, then received; both count toward one total.
    pub progress: Option<Progress>,
}

/// One run of a program: the elements of its inputs, and the values that it returns.
///
/// Steps that no wanted value needs are not computed.
pub struct NewRun<'a, I> {
    /// The program.
    pub program: BuiltProgram,
    /// What is given for inputs; of several for the same input, the last one.
    pub inputs: Vec<GivenInput<I>>,
    /// The wanted values.
    pub outputs: Vec<NewOutput>,
    /// The listeners of outputs.
    pub early: Vec<EarlyListener<'a>>,
}

/// What a run is given for an input.
pub struct GivenInput<I> {
    /// The program of the value.
    pub program: ProgramTag,
    /// The value of the input step.
    pub value: ValueId,
    /// The elements.
    pub input: I,
}

/// A value that a run returns.
#[derive(Debug, Clone, Copy)]
pub struct NewOutput {
    /// The program of the value.
    pub program: ProgramTag,
    /// The value.
    pub value: ValueId,
    /// The shape of points; `None` for a vector.
    pub points: Option<PointsShape>,
}

/// Receives points that arrive before the result.
pub struct EarlyListener<'a> {
    /// The number of the output.
    pub output: usize,
    /// Receives the points.
    pub call: Box<dyn Fn(MsmSums) + Send + Sync + 'a>,
}

impl<'a, I> NewRun<'a, I> {
    /// A run without inputs and outputs.
    pub fn new(program: &BuiltProgram) -> Self {
        let (inputs, outputs, early) = Default::default();
        Self { program: program.clone(), inputs, outputs, early }
    }

    /// Provides the elements of an input: its rows, one after another.
    #[must_use]
    pub fn input(mut self, value: VectorValue, elements: impl Into<I>) -> Self {
        let (program, value) = (value.program(), value.id());
        self.inputs.push(GivenInput { program, value, input: elements.into() });
        self
    }

    /// Returns a vector; read it with [`RunValues::vector`].
    #[must_use]
    pub fn send(mut self, value: VectorValue) -> Self {
        self.outputs.push(NewOutput { program: value.program(), value: value.id(), points: None });
        self
    }

    /// Returns the points of an MSM; read them with [`RunValues::points`].
    #[must_use]
    pub fn send_points<A: CurvePoint>(mut self, value: PointsValue<A>) -> Self {
        let points = Some(PointsShape { group: A::GROUP, count: value.count() });
        self.outputs.push(NewOutput { program: value.program(), value: value.id(), points });
        self
    }

    /// Like [`Self::send_points`], and calls `listener` with the points as soon as they are known,
    /// if that is before the result. The points are valid only if the run succeeds and returns
    /// them, too. The listener must return quickly.
    #[must_use]
    pub fn send_points_early<A: CurvePoint>(
        mut self,
        value: PointsValue<A>,
        listener: impl Fn(Vec<A::Group>) + Send + Sync + 'a,
    ) -> Self {
        self.early.push(EarlyListener::new::<A>(self.outputs.len(), listener));
        self.send_points(value)
    }
}

impl<'a> EarlyListener<'a> {
    /// A listener to the points of an output.
    pub fn new<A: CurvePoint>(
        output: usize,
        listener: impl Fn(Vec<A::Group>) + Send + Sync + 'a,
    ) -> Self {
        let call = move |sums: MsmSums| {
            if let Some(points) = A::from_sums(sums) {
                listener(points);
            }
        };
        Self { output, call: Box::new(call) }
    }
}

/// The elements that are given for each input of a program, in the order of its inputs. The handles
/// of all values must belong to it.
///
/// Errors: `Invalid` for an input or output of another program, for a value that is not an input,
/// and for an input that is not given.
pub fn check_given<'a, I>(
    program: &BuiltProgram,
    inputs: &'a [GivenInput<I>],
    outputs: impl IntoIterator<Item = ProgramTag>,
) -> Result<Vec<&'a GivenInput<I>>> {
    check_values(program, inputs, outputs)?;
    let steps = program.program();
    let given = steps.operands(ExternalOperand::Input).map(|value| {
        let given = inputs.iter().rev().find(|given| given.value == value);
        given.ok_or_else(|| steps.step_error(value, StepProblem::step(FieldProblem::Missing)))
    });
    given.collect()
}

/// Like [`check_given`], although inputs may be missing.
///
/// Errors: those of [`check_given`].
pub fn check_values<I>(
    program: &BuiltProgram,
    inputs: &[GivenInput<I>],
    outputs: impl IntoIterator<Item = ProgramTag>,
) -> Result<()> {
    let other = |field, index| InputError::element(field, index as u64, FieldProblem::OtherProgram);
    let steps = program.program();
    for (index, given) in inputs.iter().enumerate() {
        if given.program != program.tag() {
            return Err(other("inputs", index));
        }
        if !steps.operands(ExternalOperand::Input).any(|input| input == given.value) {
            return Err(steps.step_error(given.value, StepProblem::step(FieldProblem::NotInput)));
        }
    }
    let wrong = outputs.into_iter().position(|tag| tag != program.tag());
    wrong.map_or(Ok(()), |index| Err(other("outputs", index)))
}

/// One row of elements that are given for an input, and their number.
#[derive(Debug, Clone)]
pub struct InputRow<I> {
    /// The elements.
    pub elements: I,
    /// The number of elements.
    pub length: u64,
}

impl<'a, I: From<&'a [Fr]>> From<&'a [Fr]> for InputRow<I> {
    fn from(elements: &'a [Fr]) -> Self {
        Self { length: elements.len() as u64, elements: elements.into() }
    }
}

impl<'a, I: From<&'a [Fr]>> From<&'a Vec<Fr>> for InputRow<I> {
    fn from(elements: &'a Vec<Fr>) -> Self {
        elements.as_slice().into()
    }
}

/// The values that a run returned, and how they were computed.
#[derive(Debug)]
pub struct RunValues {
    program: ProgramTag,
    outputs: Vec<MadeValue>,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
    /// One for each step of the program, in order.
    pub steps: Vec<RunStep>,
}

/// A value that a run returned.
#[derive(Debug)]
pub struct MadeValue {
    /// The value.
    pub value: ValueId,
    /// Its elements or points.
    pub content: RunContent,
}

/// Elements or points.
pub enum RunContent {
    /// The rows of a vector, one after another.
    Vector(ValueElements),
    /// One point for each row of the scalars.
    Points(MsmSums),
}

impl fmt::Debug for RunContent {
    /// Elements may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(elements) => write!(f, "{} elements", elements.len()),
            Self::Points(points) => write!(f, "{} points", points.len()),
        }
    }
}

impl RunValues {
    /// The values of a run of the program with this tag.
    pub fn new(
        program: ProgramTag,
        outputs: Vec<MadeValue>,
        timing: Timing,
        execution: Execution,
        steps: Vec<RunStep>,
    ) -> Self {
        Self { program, outputs, timing, execution, steps }
    }

    /// The elements of a vector: its rows, one after another. They are wiped when this is dropped.
    ///
    /// Errors: `Invalid` if the run did not return this value, or if it is over another field.
    pub fn vector(&self, value: VectorValue) -> Result<&[Fr]> {
        self.find(value.program(), value.id(), |content| match content {
            RunContent::Vector(ValueElements::Fr(elements)) => Some(elements.as_slice()),
            _ => None,
        })
    }

    /// Like [`Self::vector`], over a field of a prime below 2^31, or the limbs of integers.
    ///
    /// Errors: those of [`Self::vector`].
    pub fn words(&self, value: VectorValue) -> Result<&[u32]> {
        self.find(value.program(), value.id(), |content| match content {
            RunContent::Vector(ValueElements::Words(_, words) | ValueElements::Limbs(words)) => {
                Some(words.as_slice())
            }
            _ => None,
        })
    }

    /// Like [`Self::vector`], over GF(2): words of 64 coefficients, the first in the lowest bit.
    ///
    /// Errors: those of [`Self::vector`].
    pub fn bits(&self, value: VectorValue) -> Result<&[u64]> {
        self.find(value.program(), value.id(), |content| match content {
            RunContent::Vector(ValueElements::Bits(words)) => Some(words.as_slice()),
            _ => None,
        })
    }

    /// The points of an MSM, one for each row of its scalars.
    ///
    /// Errors: `Invalid` if the run did not return this value.
    pub fn points<A: CurvePoint>(&self, value: PointsValue<A>) -> Result<Vec<A::Group>> {
        self.find(value.program(), value.id(), |content| match content {
            RunContent::Points(points) => A::from_sums(points.clone()),
            RunContent::Vector(_) => None,
        })
    }

    fn find<'a, T>(
        &'a self,
        program: ProgramTag,
        value: ValueId,
        read: impl Fn(&'a RunContent) -> Option<T>,
    ) -> Result<T> {
        let outputs = self.outputs.iter().filter(|output| output.value == value);
        let found = outputs.map(|output| &output.content).find_map(read);
        let found = found.filter(|_| program == self.program);
        found.ok_or(InputError::field("value", FieldProblem::Missing))
    }
}

/// Duration of each phase. Phases of one job may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Server: from the header to the last payload byte.
    pub receive: Duration,
    /// Server: waiting for a worker while data was available.
    pub queue: Duration,
    /// Server: decoding and computing.
    pub compute: Duration,
    /// Server: checking the result.
    pub verify: Duration,
    /// Server: encoding the result and handing it to the transport.
    pub send: Duration,
    /// Client: from the first payload byte until the last is handed to the transport. For a payload
    /// in a single message: the whole call minus the server's phases.
    pub upload: Duration,
    /// Client: reading the result.
    pub download: Duration,
    /// Client: the whole call, retries included.
    pub total: Duration,
}

impl Timing {
    /// The longest duration of each phase.
    #[must_use]
    pub fn longest(&self, other: &Self) -> Self {
        Self {
            receive: self.receive.max(other.receive),
            queue: self.queue.max(other.queue),
            compute: self.compute.max(other.compute),
            verify: self.verify.max(other.verify),
            send: self.send.max(other.send),
            upload: self.upload.max(other.upload),
            download: self.download.max(other.download),
            total: self.total.max(other.total),
        }
    }
}

/// What computed the result, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Execution {
    /// Name of the engine, such as `cpu`.
    pub engine: String,
    /// Device and method, such as `2 threads, blst`.
    pub device: String,
    /// The check that the result passed.
    pub verified: Verification,
    /// Time of each stage on the device, in order; empty if the engine reports none.
    pub stages: Vec<Stage>,
}

/// A stage of a job on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Such as `sort`.
    pub name: String,
    /// Time by the device's clock, summed over all pieces of the job.
    pub duration: Duration,
}

/// What one step took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStep {
    /// The kind of step, such as `ntt`.
    pub operation: String,
    /// Time to compute the value, without its check; zero if no output needs the step.
    pub time: Duration,
    /// How the engine computed it, such as the plan of an MSM; may be empty.
    pub method: String,
    /// The check that the value passed.
    pub verified: Verification,
}

/// Elements of a vector in the encoding of their field. Wiped when dropped.
pub enum ValueElements {
    /// Elements of Fr.
    Fr(Zeroizing<Vec<Fr>>),
    /// Elements of a field of a prime below 2^31.
    Words(Prime31, Zeroizing<Vec<u32>>),
    /// Words of 64 coefficients over GF(2).
    Bits(Zeroizing<Vec<u64>>),
    /// Limbs of integers.
    Limbs(Zeroizing<Vec<u32>>),
}

impl ValueElements {
    /// Errors: `Invalid` if there is no memory for them.
    pub fn zeros(field: FieldId, count: u64) -> Result<Self> {
        let zeros = match field {
            FieldId::Bls12381Fr => fr_zeros(count).map(Self::Fr),
            FieldId::Prime31(prime) => zeros(count).map(|words| Self::Words(prime, words)),
            FieldId::Gf2 => zeros(count).map(Self::Bits),
            FieldId::Integers => zeros(count).map(Self::Limbs),
        };
        zeros.map_err(|problem| InputError::field("outputs", problem))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Fr(elements) => elements.len(),
            Self::Words(_, words) => words.len(),
            Self::Bits(words) => words.len(),
            Self::Limbs(limbs) => limbs.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, to be overwritten by elements of the field.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Fr(elements) => fr_as_bytes_mut(elements),
            Self::Words(_, words) => bytemuck::cast_slice_mut(words),
            Self::Bits(words) => bytemuck::cast_slice_mut(words),
            Self::Limbs(limbs) => bytemuck::cast_slice_mut(limbs),
        }
    }
}

/// Zeros that are wiped when they are dropped.
///
/// Errors: `NoMemory`.
pub fn zeros<T: Zeroable + Zeroize>(count: u64) -> Result<Zeroizing<Vec<T>>, FieldProblem> {
    let length = usize::try_from(count).ok();
    let zeros = length.and_then(|length| bytemuck::try_zeroed_vec(length).ok());
    zeros.map(Zeroizing::new).ok_or_else(|| no_memory::<T>(count))
}

/// Like [`zeros`], for elements of Fr.
///
/// Errors: `NoMemory`.
pub fn fr_zeros(count: u64) -> Result<Zeroizing<Vec<Fr>>, FieldProblem> {
    let mut zeros = Zeroizing::new(Vec::new());
    let length = usize::try_from(count).ok();
    let reserved = length.and_then(|length| zeros.try_reserve_exact(length).ok());
    reserved.ok_or_else(|| no_memory::<Fr>(count))?;
    zeros.resize(count as usize, Fr::zero());
    Ok(zeros)
}

fn no_memory<T>(count: u64) -> FieldProblem {
    FieldProblem::NoMemory { bytes: count.saturating_mul(size_of::<T>() as u64) }
}
