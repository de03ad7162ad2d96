//! Checks of shapes that a program file specifies. Failures name the step.

use capstan_math::{field::FieldId, gf2::COLUMNS_MAX, operation::PRODUCT_LIMBS_MAX};

use super::file::{InputText, NamedStep, ProgramFile};
use crate::{
    client::{ClientError, VectorValue},
    error::FieldProblem,
    exit::{CliFailure, Exit, Result},
};

/// Adds the name of the step that is wrong to a failure.
pub fn in_step(step: &NamedStep, failure: CliFailure) -> CliFailure {
    failure.in_file(format!("step '{}'", step.name))
}

/// Refuses inputs whose rows are too long, before memory is allocated for them. The builder of
/// programs checks inputs over prime fields.
pub fn input_shapes(file: &ProgramFile) -> Result<()> {
    for step in &file.steps {
        let Some(InputText { field, length, columns, .. }) = step.input else { continue };
        let (member, given, max) = match field {
            FieldId::Integers => ("length", length, PRODUCT_LIMBS_MAX),
            FieldId::Gf2 => ("columns", columns, COLUMNS_MAX),
            FieldId::Bls12381Fr | FieldId::Prime31(_) => continue,
        };
        if given.is_some_and(|given| given > max) {
            let error = ClientError::input(member, FieldProblem::TooLarge { max });
            return Err(in_step(step, error.into()));
        }
    }
    Ok(())
}

/// Checks that a step made a matrix of bits with the columns of its inputs.
///
/// Errors: `made` does not consist of whole rows of a matrix.
pub fn whole_rows(step: &NamedStep, made: VectorValue, columns: u64) -> Result<()> {
    let words = columns.div_ceil(64);
    let whole = |count: u64| count.is_multiple_of(words);
    let row = format!("{words}, the words of a row of {columns} columns");
    let problem = match [step.number("offset"), step.number("length")] {
        [Some(offset), Some(length)] if !(whole(offset) && whole(length)) => {
            format!("offset and length must be multiples of {row}")
        }
        _ if !whole(made.length()) => {
            format!("the result has {} words: expected a multiple of {row}", made.length())
        }
        _ => return Ok(()),
    };
    Err(CliFailure::new(Exit::Data, format!("{}: {problem}", step.kind)))
}
