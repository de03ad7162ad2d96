//! Values and their types.

use serde::{Deserialize, Serialize};

use crate::{curve::Group, error::FieldProblem, field::FieldId};

/// The maximum number of rows of a vector.
pub const ROWS_MAX: u32 = 65_536;

/// The maximum number of elements of all rows of a vector. Bytes of all values of a program stay
/// below 2^56.
pub const VALUE_ELEMENTS_MAX: u64 = 1 << 40;

/// The index of the step that makes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index of the step.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A vector of one or several rows.
    Vector(VectorShape),
    /// A list of points.
    Points(PointsShape),
}

/// Rows of the same length: at least one row, at most [`VALUE_ELEMENTS_MAX`] elements in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VectorShape {
    field: FieldId,
    rows: u32,
    length: u64,
}

/// A list of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PointsShape {
    /// The group of the points.
    pub group: Group,
    /// The number of points.
    pub count: u32,
}

impl ValueType {
    /// Bytes in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Vector(shape) => shape.bytes(),
            // Three coordinates each.
            Self::Points(PointsShape { group, count }) => {
                count as u64 * 3 * group.coordinate_bytes() as u64
            }
        }
    }
}

impl VectorShape {
    /// One row.
    ///
    /// Errors: `TooLarge` for the length.
    pub fn row(field: FieldId, length: u64) -> Result<Self, FieldProblem> {
        Self { field, rows: 1, length: 0 }.with_length(length)
    }

    /// This type, with this number of rows.
    ///
    /// Errors: `Zero` or `TooLarge` for the number of rows.
    pub fn with_rows(self, rows: u32) -> Result<Self, FieldProblem> {
        let max = ROWS_MAX.into();
        let max = VALUE_ELEMENTS_MAX.checked_div(self.length).map_or(max, |rows| rows.min(max));
        match rows {
            0 => Err(FieldProblem::Zero),
            rows if u64::from(rows) > max => Err(FieldProblem::TooLarge { max }),
            rows => Ok(Self { rows, ..self }),
        }
    }

    /// This type, with rows of this length.
    ///
    /// Errors: `TooLarge` for the length.
    pub fn with_length(self, length: u64) -> Result<Self, FieldProblem> {
        let max = self.length_max();
        if length > max {
            return Err(FieldProblem::TooLarge { max });
        }
        Ok(Self { length, ..self })
    }

    /// The maximum length of a row, given the number of rows.
    pub const fn length_max(self) -> u64 {
        VALUE_ELEMENTS_MAX / self.rows as u64
    }

    /// The field of the elements.
    pub const fn field(self) -> FieldId {
        self.field
    }

    /// The number of rows.
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// Elements of a row.
    pub const fn length(self) -> u64 {
        self.length
    }

    /// Elements of all rows.
    pub const fn elements(self) -> u64 {
        self.rows as u64 * self.length
    }

    /// Bytes in memory.
    pub const fn bytes(self) -> u64 {
        self.elements() * self.field.element_bytes()
    }
}
