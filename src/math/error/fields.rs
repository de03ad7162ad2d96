//! Names of what is wrong in a program or in a list.

use std::fmt;

/// A step of a program, or one of its fields: `program.steps[7].ntt.input`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepField {
    /// The step's index.
    pub step: u32,
    /// The name of its kind.
    pub operation: &'static str,
    /// The field, named as in the proto; `None` for the whole step.
    pub name: Option<&'static str>,
}

impl fmt::Display for StepField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, operation, name } = self;
        write!(f, "program.steps[{step}].{operation}")?;
        name.map_or(Ok(()), |name| write!(f, ".{name}"))
    }
}

/// A member of an item of a list, or one of the member's fields: `inputs[2].stored.upload_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemField {
    /// The list, named as in the proto.
    pub list: &'static str,
    /// The item's index.
    pub item: u32,
    /// The item's member.
    pub member: &'static str,
    /// The member's field; `None` for the whole member.
    pub name: Option<&'static str>,
}

impl fmt::Display for ItemField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { list, item, member, name } = self;
        write!(f, "{list}[{item}].{member}")?;
        name.map_or(Ok(()), |name| write!(f, ".{name}"))
    }
}
