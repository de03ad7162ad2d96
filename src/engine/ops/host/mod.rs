//! What steps compute with on the host: values in memory, and an engine for NTTs and MSMs.

mod any_field;
mod argument;
mod bits;
mod elements;
mod field;
mod pieces;
mod polynomial;
mod rows;
mod sink;
mod work;

pub use any_field::{AnyFieldStep, AnyVectorStep, run_in_any_field, run_on_any_vector};
pub use argument::{EncodedRows, HostArgument};
pub use bits::{
    bit_matrix, bit_rows, eliminate, elimination_error, elimination_scratch, of_bit_matrix,
};
pub use elements::map_elements;
pub use field::{HostElements, HostField};
pub use pieces::{PieceContext, PiecesDone, PiecesSpec, StepInPieces};
pub use polynomial::{evaluate, horner};
pub use rows::{HostRows, RowPiece, Rows, for_each_piece, padded, rows_of, zeros};
pub use sink::ElementSink;
pub use work::{StepTypes, elements, rows, vector_bytes};

use crate::{
    curve::points::{Bases, MsmSums},
    engines::{EncodedScalars, EngineModel, EngineWork, ExecutedBy, JobControl, MsmNttEngine},
    error::{Error, Result},
    program::{ValueType, VectorShape},
    sparse::SparseMatrix,
};

#[derive(PartialEq)]
pub enum HostValue {
    Vector(HostRows),
    Points(MsmSums),
}

/// What a step computes with, in addition to values.
pub struct HostContext<'a> {
    pub engine: &'a dyn MsmNttEngine,
    pub control: &'a JobControl,
    /// The type of the value to make.
    pub value_type: ValueType,
    /// The elements of an input step.
    pub input: Option<EncodedScalars<'a>>,
    /// The bases of a step that uses bases.
    pub bases: Option<&'a Bases>,
    /// The matrix of a step that uses one.
    pub matrix: Option<&'a SparseMatrix>,
}

/// A value, and what computed it if that was the engine.
pub struct HostResult {
    pub value: HostValue,
    pub executor: Option<ExecutedBy>,
}

/// A kind of step that is computed on the host. Everything except the engine's work runs on the
/// current rayon pool.
pub trait HostStep {
    /// Makes the value. At most one input is owned: the value may take its memory.
    ///
    /// Errors: `Invalid` for an element that is not canonical; those of the engine.
    fn run(&self, inputs: Vec<HostArgument<'_>>, context: &HostContext<'_>) -> Result<HostResult>;

    /// How much the step computes, for models of its time on the host and on a GPU.
    fn work(&self, types: &StepTypes<'_>) -> Vec<EngineWork>;

    /// How much the check of the step's value computes.
    fn check_work(&self, types: &StepTypes<'_>) -> Vec<EngineWork> {
        self.work(types).into_iter().flat_map(work::check_work).collect()
    }

    /// Whether the value is right, at less than the cost of making it again; `None` if the kind has
    /// no such check.
    fn check(
        &self,
        _inputs: &[HostArgument<'_>],
        _value: &HostValue,
        _context: &HostContext<'_>,
    ) -> Result<Option<bool>> {
        Ok(None)
    }

    /// Bytes of working memory on `engine` for a step with inputs of these types, in addition to
    /// values.
    fn scratch_bytes(
        &self,
        _inputs: &[ValueType],
        _engine: &dyn EngineModel,
        _is_checked: bool,
    ) -> u64 {
        0
    }

    /// Bytes of working memory on a GPU for a step with inputs of these types, in addition to
    /// values.
    fn device_scratch_bytes(&self, _inputs: &[ValueType]) -> u64 {
        0
    }

    /// Bytes of memory of [`Self::in_pieces`] for an input of this shape, in addition to the input
    /// and to a vector's destination; `None` if the kind needs the whole input at once.
    fn pieces_bytes(
        &self,
        _input: VectorShape,
        _is_checked: bool,
        _engine: &dyn EngineModel,
    ) -> Option<u64> {
        None
    }

    /// The step, computed piece by piece from an input of the call that nothing else reads; `None`
    /// if the kind needs the whole input at once.
    fn in_pieces(&self, _: PiecesSpec) -> Option<Box<dyn StepInPieces>> {
        None
    }
}

impl HostContext<'_> {
    /// The shape of the vector to make.
    pub fn shape(&self) -> Result<VectorShape> {
        match self.value_type {
            ValueType::Vector(shape) => Ok(shape),
            ValueType::Points(_) => Err(Error::Internal("the step makes points".into())),
        }
    }

    pub fn bases(&self) -> Result<&Bases> {
        self.bases.ok_or_else(|| Error::Internal("the step's bases are missing".into()))
    }

    pub fn matrix(&self) -> Result<&SparseMatrix> {
        self.matrix.ok_or_else(|| Error::Internal("the step's matrix is missing".into()))
    }
}

impl HostResult {
    /// A vector that the step's own code has made.
    pub fn of_rows<F: HostElements>(field: F, rows: Rows<F::Element>) -> Self {
        field.wrap(rows).into()
    }
}

impl From<HostRows> for HostResult {
    fn from(rows: HostRows) -> Self {
        Self { value: HostValue::Vector(rows), executor: None }
    }
}

/// The only input of a step.
pub fn only(inputs: Vec<HostArgument<'_>>) -> Result<HostArgument<'_>> {
    let [input] = <[_; 1]>::try_from(inputs)
        .map_err(|_| Error::Internal("the step needs one input".into()))?;
    Ok(input)
}
