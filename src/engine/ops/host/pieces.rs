//! Steps that are computed piece by piece, while their input arrives and their value is sent.

use std::{ops::Range, sync::Arc, time::Duration};

use super::ElementSink;
use crate::{
    curve::points::{Bases, MsmSums},
    engines::{EncodedScalars, ExecutedBy, JobControl, MsmNttEngine},
    error::Result,
    program::VectorShape,
};

/// What a step in pieces is computed from.
pub struct PiecesSpec {
    /// The shape of the input.
    pub input: VectorShape,
    /// Whether the value is checked.
    pub is_checked: bool,
    pub engine: Arc<dyn MsmNttEngine>,
}

pub struct PieceContext<'a> {
    pub control: &'a JobControl,
    /// The bases of a step that uses bases.
    pub bases: Option<&'a Bases>,
    /// The whole input, of which the elements of the next piece have arrived.
    pub input: EncodedScalars<'a>,
    /// The destination of a vector.
    pub sink: Option<ElementSink<'a>>,
}

/// The outcome of the last piece.
pub struct PiecesDone {
    /// The value, unless it is a vector, which has been written to its sink.
    pub points: Option<MsmSums>,
    pub executor: ExecutedBy,
    /// Time spent checking.
    pub verify_time: Duration,
}

/// A step in progress.
pub trait StepInPieces: Send {
    /// Called once, before the first piece is computed. It may not have arrived yet.
    fn begin(&mut self, _bases: Option<&Bases>) -> Result<()> {
        Ok(())
    }

    /// The elements that the next piece reads.
    fn next_elements(&self) -> Range<usize>;

    /// Computes the next piece. Returns the outcome after the last one.
    ///
    /// Errors: `Invalid` for an element that is not canonical; `Corrupt` if a check fails; those of
    /// the engine.
    fn compute(&mut self, context: &PieceContext<'_>) -> Result<Option<PiecesDone>>;
}
