//! What is wrong with the input of a computation, and the words by which responses and metrics name
//! the errors of all floors. Independent of gRPC, of engines and of devices.

mod field_problem;
mod reason;

pub use field_problem::FieldProblem;
pub use reason::Reason;

use std::fmt;

/// `Result` with [`InputError`].
pub type Result<T, E = InputError> = std::result::Result<T, E>;

/// What is wrong with an input: a retry fails, too. Messages name the field and the index, never
/// values, pointers or paths of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A field is wrong.
    #[error("{path}{at}: {problem}", at = suffix(*.index))]
    Invalid {
        /// The field.
        path: FieldPath,
        /// Index of the first bad element, if the field has many.
        index: Option<u64>,
        /// What is wrong with it.
        problem: FieldProblem,
    },
    /// The id is malformed, unknown or released: callers cannot tell which.
    #[error("no object, upload or program has this id: check the id, or put it again")]
    NotFound,
}

/// Where a wrong value stands. The names are those of the proto.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldPath {
    /// A field of the request.
    Field(&'static str),
    /// A step of a program, or one of its fields.
    Step(StepField),
    /// An item of a list, such as an input or an output of a program, or one of its fields.
    Item(ItemField),
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Step(StepField { step, operation, name }) => {
                write!(f, "program.steps[{step}].{operation}")?;
                name.map_or(Ok(()), |name| write!(f, ".{name}"))
            }
            Self::Item(ItemField { list, item, member, name }) => {
                write!(f, "{list}[{item}].{member}")?;
                name.map_or(Ok(()), |name| write!(f, ".{name}"))
            }
        }
    }
}

/// A step of a program, or one of its fields: `program.steps[7].ntt.input`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepField {
    /// The step's index.
    pub step: u32,
    /// The name of its kind.
    pub operation: &'static str,
    /// The field; `None` for the whole step.
    pub name: Option<&'static str>,
}

/// A member of an item of a list, or one of the member's fields: `inputs[2].stored.upload_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemField {
    /// The list.
    pub list: &'static str,
    /// The item's index.
    pub item: u32,
    /// The item's member.
    pub member: &'static str,
    /// The member's field; `None` for the whole member.
    pub name: Option<&'static str>,
}

impl InputError {
    /// The reason, without its details.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Invalid { problem, .. } => problem.reason(),
            Self::NotFound => Reason::ObjectUnknown,
        }
    }

    /// An error about a whole field.
    pub const fn field(field: &'static str, problem: FieldProblem) -> Self {
        Self::Invalid { path: FieldPath::Field(field), index: None, problem }
    }

    /// An error about element `index` of a field.
    pub const fn element(field: &'static str, index: u64, problem: FieldProblem) -> Self {
        Self::Invalid { path: FieldPath::Field(field), index: Some(index), problem }
    }

    /// An error about a member of an item.
    pub const fn item(
        list: &'static str,
        item: usize,
        member: &'static str,
        problem: FieldProblem,
    ) -> Self {
        let path = FieldPath::Item(ItemField { list, item: item as u32, member, name: None });
        Self::Invalid { path, index: None, problem }
    }

    /// Names the item that a wrong field belongs to. Other errors stay as they are.
    pub fn of_item(mut self, list: &'static str, item: usize, member: &'static str) -> Self {
        if let Self::Invalid { path, .. } = &mut self
            && let FieldPath::Field(name) = *path
        {
            let name = Some(name);
            *path = FieldPath::Item(ItemField { list, item: item as u32, member, name });
        }
        self
    }

    /// The error of a call that uses a region whose pages its client has released.
    pub const fn released_pages() -> Self {
        Self::field("region_id", FieldProblem::ReleasedPages)
    }
}

/// `[7]`, or nothing.
fn suffix(index: Option<u64>) -> String {
    index.map_or_else(String::new, |index| format!("[{index}]"))
}
