//! What a run returns.

use std::time::Duration;

use capstan_math::{
    builder::{PointsValue, ProgramTag, VectorValue},
    curve::{Fr, points::MsmSums},
    error::FieldProblem,
    program::ValueId,
    runner::{Execution, RunStep, Timing, ValueElements},
};

use super::request::{Delivery, GivenElements, InputElements};
use crate::{
    CurvePoint, ProgramRun, ScalarInput, SharedElement, SharedVector, VectorInfo,
    error::{ClientError, Result},
    shared_vector::RunVector,
    transfer::copy_pool::CopyPool,
};

/// Result of a run: the wanted values, and how they were computed.
#[derive(Debug)]
pub struct RunResult {
    pub(crate) program: ProgramTag,
    pub(crate) outputs: Vec<ReturnedValue>,
    /// Duration of each phase.
    pub timing: Timing,
    /// Engine, device and stages.
    pub execution: Execution,
    /// One for each step of the program, in order.
    pub steps: Vec<RunStep>,
}

/// What a run would take. The server admits a run if the sum of these bytes is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEstimate {
    /// Bytes of all inputs.
    pub input_bytes: u64,
    /// Bytes of the vectors that are sent or kept.
    pub output_bytes: u64,
    /// Bytes of the largest set of values that are needed at the same time.
    pub value_bytes: u64,
    /// Bytes of working memory.
    pub scratch_bytes: u64,
    /// The server's engine, such as `cuda`. The CPU may compute short runs nevertheless.
    pub engine: String,
    /// The engine's device, such as `NVIDIA H200`.
    pub device: String,
    /// Jobs that the server has accepted and not yet answered. A server with several tenants rounds
    /// the number and the time of other tenants' jobs down to a power of two.
    pub jobs_ahead: u32,
    /// The modelled time of these jobs, in all: several devices share it, and jobs that have begun
    /// count in full. `None` from servers that do not know it.
    pub time_ahead: Option<Duration>,
    /// Modelled time of steps, checks and copies, if no other job runs. Servers refuse programs
    /// whose modelled time is above their limit ([`Reason::ProgramTime`](crate::Reason)).
    pub modelled_time: Duration,
}

#[derive(Debug)]
pub(crate) struct ReturnedValue {
    pub value: ValueId,
    pub content: OutputContent,
}

pub(crate) enum OutputContent {
    Vector(ValueElements),
    Points(MsmSums),
    Kept(VectorInfo),
    /// Written to a region.
    InRegion,
    /// `None` once it is taken.
    Shared(Option<RunVector>),
}

// Elements may be secret witness data: only their number is printed.
impl std::fmt::Debug for OutputContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vector(elements) => write!(f, "{} elements", elements.len()),
            Self::Points(points) => write!(f, "{} points", points.len()),
            Self::Kept(vector) => write!(f, "{vector:?}"),
            Self::InRegion => f.write_str("in a region"),
            Self::Shared(vector) => write!(f, "{vector:?}"),
        }
    }
}

impl RunResult {
    /// The elements of a vector that the run returned: its rows, one after another. They are wiped
    /// when the result is dropped.
    ///
    /// Errors: `InvalidInput` if the run did not send this value.
    pub fn vector(&self, value: VectorValue) -> Result<&[Fr]> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Vector(ValueElements::Fr(elements)) => Some(elements.as_slice()),
            _ => None,
        })
    }

    /// Like [`Self::vector`], over a field of a prime below 2^31: values below the prime.
    ///
    /// Errors: `InvalidInput` if the run did not send this value, or if it is over Fr.
    pub fn vector31(&self, value: VectorValue) -> Result<&[u32]> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Vector(ValueElements::Words(_, words)) => Some(words.as_slice()),
            _ => None,
        })
    }

    /// Like [`Self::vector`], over GF(2): words of 64 coefficients, the first in the lowest bit.
    ///
    /// Errors: `InvalidInput` if the run did not send this value, or if it is over another field.
    pub fn words(&self, value: VectorValue) -> Result<&[u64]> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Vector(ValueElements::Bits(words)) => Some(words.as_slice()),
            _ => None,
        })
    }

    /// The limbs of integers that the run returned: their rows, one after another.
    #[doc(hidden)]
    pub fn limbs(&self, value: VectorValue) -> Result<&[u32]> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Vector(ValueElements::Limbs(limbs)) => Some(limbs.as_slice()),
            _ => None,
        })
    }

    /// The points of an MSM, one for each row of its scalars.
    ///
    /// Errors: `InvalidInput` if the run did not send this value.
    pub fn points<A: CurvePoint>(&self, value: PointsValue<A>) -> Result<Vec<A::Group>> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Points(points) => A::from_sums(points.clone()),
            _ => None,
        })
    }

    /// The vector that the server keeps: an input of other calls, to be released with
    /// [`Client::release_vector`](crate::Client::release_vector).
    ///
    /// Errors: `InvalidInput` if the run did not keep this value.
    pub fn kept(&self, value: VectorValue) -> Result<VectorInfo> {
        self.find(value.program(), value.id(), |content| match content {
            OutputContent::Kept(vector) => Some(*vector),
            _ => None,
        })
    }

    /// The vector that [`ProgramRun::write_to`] or [`ProgramRun::in_place`] got for the value, with
    /// its elements.
    ///
    /// Errors: `InvalidInput` if the run wrote this value to no vector, or if it has been taken, or
    /// if it is not over Fr.
    pub fn take_vector(&mut self, value: VectorValue) -> Result<SharedVector> {
        self.take(value)
    }

    /// Like [`Self::take_vector`], over a field of a prime below 2^31.
    ///
    /// Errors: `InvalidInput` if the run wrote this value to no vector, or if it has been taken, or
    /// if it is over Fr.
    pub fn take_vector31(&mut self, value: VectorValue) -> Result<SharedVector<u32>> {
        self.take(value)
    }

    fn take<E: SharedElement>(&mut self, value: VectorValue) -> Result<SharedVector<E>> {
        let is_own = value.program() == self.program;
        let outputs = self.outputs.iter_mut().filter(|output| is_own && output.value == value.id());
        let mut problem = FieldProblem::Missing;
        for output in outputs {
            let OutputContent::Shared(vector) = &mut output.content else { continue };
            match vector.take().map(E::from_run_vector) {
                Some(Ok(found)) => return Ok(found),
                Some(Err(other)) => {
                    *vector = Some(other);
                    problem = FieldProblem::OtherField;
                }
                None => {}
            }
        }
        Err(ClientError::input("value", problem))
    }

    /// The elements of a vector that the run returned.
    ///
    /// Errors: `InvalidInput` if the run did not send this value.
    pub(crate) fn into_elements(self, value: VectorValue) -> Result<ValueElements> {
        let is_own = value.program() == self.program;
        let sent = self.outputs.into_iter().filter(|output| is_own && output.value == value.id());
        let mut vectors = sent.filter_map(|output| match output.content {
            OutputContent::Vector(elements) => Some(elements),
            _ => None,
        });
        vectors.next().ok_or(ClientError::input("value", FieldProblem::Missing))
    }

    /// Moves the run's vectors into the result. Received elements replace theirs, which are wiped,
    /// as are inputs that the run owns.
    pub(crate) fn return_vectors(&mut self, run: ProgramRun<'_>, threads: &CopyPool) {
        for given in run.inputs {
            if let GivenElements::Elements(InputElements {
                elements: ScalarInput::Shared { bytes, .. },
                ..
            }) = given.input
            {
                threads.drop_later(bytes.len(), bytes);
            }
        }
        let mut vectors: Vec<_> = run.vectors.into_iter().map(Some).collect();
        for (wanted, returned) in run.outputs.iter().zip(&mut self.outputs) {
            let Delivery::ToVector(number) = wanted.delivery else { continue };
            let mut vector = vectors[number].take();
            if let (Some(vector), OutputContent::Vector(received)) =
                (&mut vector, &mut returned.content)
                && let Some(mut old) = vector.replace(received)
            {
                threads.drop_later(old.as_bytes_mut().len(), old);
            }
            returned.content = OutputContent::Shared(vector);
        }
    }

    fn find<'a, T>(
        &'a self,
        program: ProgramTag,
        value: ValueId,
        read: impl Fn(&'a OutputContent) -> Option<T>,
    ) -> Result<T> {
        let outputs = self.outputs.iter().filter(|output| output.value == value);
        let found = outputs.map(|output| &output.content).find_map(read);
        let found = found.filter(|_| program == self.program);
        found.ok_or(ClientError::input("value", FieldProblem::Missing))
    }
}
