//! Steps that compute each element from those at the same index.

use super::{
    HostContext,
    argument::HostArgument,
    field::HostField,
    rows::{RowPiece, Rows, for_each_piece, zeros},
};
use crate::error::Result;

/// The elements of all inputs at one index.
pub struct ElementsAt<'a, E> {
    /// A piece of each input; `None` for the input that is being overwritten.
    inputs: &'a [Option<&'a [E]>],
    index: usize,
    overwritten: E,
}

impl<E: Copy> ElementsAt<'_, E> {
    /// The element of input number `input`.
    pub fn of(&self, input: usize) -> E {
        self.inputs[input].map_or(self.overwritten, |piece| piece[self.index])
    }

    /// The elements of all inputs.
    pub fn iter(&self) -> impl Iterator<Item = E> {
        (0..self.inputs.len()).map(|input| self.of(input))
    }
}

/// Makes the rows of a step whose inputs all have its value's shape: calls `element` for each
/// index, with the elements of the inputs at that index. Overwrites the input that is owned, if
/// there is one.
///
/// Errors: `Cancelled`, `Deadline`.
pub fn map_elements<F: HostField>(
    field: F,
    context: &HostContext<'_>,
    inputs: Vec<HostArgument<'_>>,
    element: impl Fn(ElementsAt<'_, F::Element>) -> F::Element + Sync,
) -> Result<Rows<F::Element>> {
    let mut out = None;
    let mut borrowed = Vec::with_capacity(inputs.len());
    for input in inputs {
        borrowed.push(match input {
            HostArgument::Owned(rows) if out.is_none() => {
                out = Some(field.into_rows(rows)?);
                None
            }
            input => Some(input),
        });
    }
    let control = context.control;
    let mut out = match out {
        Some(out) => out,
        None => zeros(context.shape()?, control)?,
    };
    let inputs =
        borrowed.iter().map(|input| input.as_ref().map(|input| input.rows(field)).transpose());
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    for_each_piece(&mut out, control, |RowPiece { row, first }, out| {
        let range = first..first + out.len();
        let pieces = inputs.iter().map(|rows| rows.map(|rows| &rows[row][range.clone()]));
        let inputs: Vec<_> = pieces.collect();
        for (index, out) in out.iter_mut().enumerate() {
            *out = element(ElementsAt { inputs: &inputs, index, overwritten: *out });
        }
    })?;
    Ok(out)
}
