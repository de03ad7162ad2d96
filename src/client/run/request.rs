//! The inputs and outputs of one run of a program.

use std::fmt;

use capstan_math::{
    builder::{BuiltProgram, PointsValue, ProgramTag, VectorValue},
    program::{PointsShape, ValueId},
    runner::{EarlyListener, GivenInput},
};

use crate::{
    CurvePoint, ScalarInput, SharedElement, SharedVector, UploadKey, shared_vector::RunVector,
};

/// The elements of one input of a run: any [`ScalarInput`], or a part of a vector on the server.
///
/// Narrow encodings are for inputs that only MSMs read.
#[derive(Debug, Clone)]
pub struct InputElements<'a> {
    pub(crate) elements: ScalarInput<'a>,
    pub(crate) offset: u64,
    pub(crate) reduce: bool,
}

impl InputElements<'_> {
    /// Elements of a vector on the server from index `offset` on, as many as the input has.
    pub fn stored(vector: UploadKey, offset: u64) -> Self {
        Self { offset, ..vector.into() }
    }

    /// Reduce 32-byte elements modulo r; otherwise the server refuses elements that are not below
    /// r.
    #[must_use]
    pub fn reduced(self) -> Self {
        Self { reduce: true, ..self }
    }
}

impl<'a, T: Into<ScalarInput<'a>>> From<T> for InputElements<'a> {
    fn from(elements: T) -> Self {
        Self { elements: elements.into(), offset: 0, reduce: false }
    }
}

/// One run of a program: the elements of its inputs, and the values that it returns or keeps.
///
/// Steps that no wanted value needs are not computed.
pub struct ProgramRun<'a> {
    pub(crate) program: BuiltProgram,
    pub(crate) inputs: Vec<GivenInput<GivenElements<'a>>>,
    pub(crate) outputs: Vec<WantedOutput>,
    /// The vectors that outputs are written to.
    pub(crate) vectors: Vec<RunVector>,
    pub(crate) early: Vec<EarlyListener<'a>>,
}

pub(crate) enum GivenElements<'a> {
    Elements(InputElements<'a>),
    /// The elements of the run's vector with this number.
    OfVector(usize),
}

#[derive(Clone, Copy)]
pub(crate) struct WantedOutput {
    pub program: ProgramTag,
    pub value: ValueId,
    pub delivery: Delivery,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Send,
    Keep,
    Points(PointsShape),
    /// Written to the run's vector with this number.
    ToVector(usize),
}

impl<'a> ProgramRun<'a> {
    /// A run without inputs and outputs.
    pub fn new(program: &BuiltProgram) -> Self {
        let (inputs, outputs, vectors, early) = Default::default();
        Self { program: program.clone(), inputs, outputs, vectors, early }
    }

    /// Provides the elements of an input: its rows, one after another.
    #[must_use]
    pub fn input(mut self, value: VectorValue, elements: impl Into<InputElements<'a>>) -> Self {
        self.give(value, GivenElements::Elements(elements.into()));
        self
    }

    /// Returns a vector; read it with [`RunResult::vector`](super::RunResult::vector).
    #[must_use]
    pub fn send(self, value: VectorValue) -> Self {
        self.want(value.program(), value.id(), Delivery::Send)
    }

    /// Returns the points of an MSM; read them with
    /// [`RunResult::points`](super::RunResult::points).
    #[must_use]
    pub fn send_points<A: CurvePoint>(self, value: PointsValue<A>) -> Self {
        let shape = PointsShape { group: A::GROUP, count: value.count() };
        self.want(value.program(), value.id(), Delivery::Points(shape))
    }

    /// Returns the points of an MSM like [`Self::send_points`], and calls `listener` with them as
    /// soon as they are known, while the server computes the rest of the program.
    ///
    /// They are valid only if the run succeeds: its result has them again. The listener may not be
    /// called, for example if the server verifies the run, or several times if the run is retried.
    /// It delays the receipt of the result until it returns.
    #[must_use]
    pub fn send_points_early<A: CurvePoint>(
        mut self,
        value: PointsValue<A>,
        listener: impl Fn(Vec<A::Group>) + Send + Sync + 'a,
    ) -> Self {
        self.early.push(EarlyListener::new::<A>(self.outputs.len(), listener));
        self.send_points(value)
    }

    /// Keeps a vector on the server, where it can be an input of other calls;
    /// [`RunResult::kept`](super::RunResult::kept) describes it. The server keeps it until it is
    /// released or unused for longer than `upload_ttl_s`.
    #[must_use]
    pub fn keep(self, value: VectorValue) -> Self {
        self.want(value.program(), value.id(), Delivery::Keep)
    }

    /// Writes a vector to `vector`, which must have as many elements as all rows of the value;
    /// [`RunResult::take_vector`](super::RunResult::take_vector) returns it, or
    /// [`RunResult::take_vector31`](super::RunResult::take_vector31) one of `u32`. If the run fails
    /// or is cancelled, `vector` is dropped. If its memory is shared, the run is retried only if
    /// the server refused to start it.
    #[must_use]
    pub fn write_to<E: SharedElement>(
        mut self,
        value: VectorValue,
        vector: SharedVector<E>,
    ) -> Self {
        self.vectors.push(E::into_run_vector(vector));
        let number = self.vectors.len() - 1;
        self.want(value.program(), value.id(), Delivery::ToVector(number))
    }

    /// Takes the elements of `input` from `vector`, and writes `output` to it, like
    /// [`Self::write_to`]. No step after `output` may read `input`.
    #[must_use]
    pub fn in_place<E: SharedElement>(
        mut self,
        input: VectorValue,
        output: VectorValue,
        vector: SharedVector<E>,
    ) -> Self {
        self.give(input, GivenElements::OfVector(self.vectors.len()));
        self.write_to(output, vector)
    }

    fn give(&mut self, value: VectorValue, input: GivenElements<'a>) {
        self.inputs.push(GivenInput { program: value.program(), value: value.id(), input });
    }

    fn want(mut self, program: ProgramTag, value: ValueId, delivery: Delivery) -> Self {
        self.outputs.push(WantedOutput { program, value, delivery });
        self
    }
}

impl fmt::Debug for ProgramRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        write!(f, "ProgramRun({:?}, {inputs} inputs, {outputs} outputs)", self.program)
    }
}
