//! What can be wrong with a field of a request.

use serde::{Deserialize, Serialize};

use super::Reason;
use crate::field::FieldId;

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FieldProblem {
    /// An enum was left at its zero value.
    #[error("must be specified: the zero value is not allowed")]
    Unspecified,
    /// A required message, or every member of a oneof, is absent.
    #[error("is required")]
    Missing,
    /// The length or count is wrong.
    #[error("wrong length: expected {expected}, got {got}")]
    Length {
        /// The right number of bytes or elements.
        expected: u64,
        /// The number of bytes or elements received.
        got: u64,
    },
    /// A coordinate or scalar is not less than its modulus.
    #[error("not canonical: must be less than the modulus")]
    NotCanonical,
    /// The point does not satisfy the curve equation.
    #[error("not on the curve")]
    NotOnCurve,
    /// The point is not in the subgroup of order r.
    #[error("not in the subgroup of order r")]
    NotInSubgroup,
    /// The infinity flag is set together with other bits.
    #[error("malformed infinity: all other bits must be zero")]
    BadInfinity,
    /// Flag bits that the encoding does not have, or a label with control characters.
    #[error("malformed: has flag bits or characters that are not allowed here")]
    BadEncoding,
    /// The value is zero.
    #[error("must not be zero")]
    Zero,
    /// The vector has no elements.
    #[error("must have at least one element in each row")]
    Empty,
    /// The product of polynomials has more coefficients than the field's largest transform.
    #[error("the product has {got} coefficients: over {field}, at most {max} are possible")]
    ProductTooLong {
        /// The field of the coefficients.
        field: FieldId,
        /// The size of the field's largest transform.
        max: u64,
        /// The coefficients of the product, before a reduction.
        got: u64,
    },
    /// The product of integers has more limbs than transforms compute.
    #[error("the product has {got} limbs: at most {max} are possible")]
    IntegerTooLong {
        /// The most limbs of a product.
        max: u64,
        /// The limbs of both factors.
        got: u64,
    },
    /// The factors of a sum are too large.
    #[error("magnitudes must add up to at most {max}")]
    FactorsTooLarge {
        /// What they may add up to.
        max: u64,
    },
    /// The number of rows does not divide the number of elements.
    #[error("must divide the number of elements, {of}")]
    NotDivisor {
        /// The number of elements.
        of: u64,
    },
    /// The value is too large.
    #[error("must be at most {max}")]
    TooLarge {
        /// The maximum.
        max: u64,
    },
    /// This process has no memory for the result of the call.
    #[error("there is no memory for the result of {bytes} bytes")]
    NoMemory {
        /// The length of the result, in bytes.
        bytes: u64,
    },
    /// The value is too small.
    #[error("must be at least {min}")]
    TooSmall {
        /// The minimum.
        min: u64,
    },
    /// A list or a row is too long.
    #[error("too long: at most {max}, got {got}")]
    TooLong {
        /// The maximum number of elements.
        max: u64,
        /// The number of elements received.
        got: u64,
    },
    /// The element is one more than the list may have of its kind.
    #[error("one too many: at most {max} are allowed")]
    TooMany {
        /// The maximum number of such elements.
        max: u64,
    },
    /// The element equals an earlier one of the list.
    #[error("repeats an earlier element")]
    Repeated,
    /// The pivot row has the leading column of an earlier one.
    #[error("has the leading column of pivot {earlier}")]
    RepeatedPivot {
        /// The index of the earlier pivot row.
        earlier: u64,
    },
    /// The row of a matrix of bits has a bit after its last column.
    #[error("has a bit that is set after its last column")]
    UnusedBits,
    /// The field does not allow this value.
    #[error("value not allowed here: see the field in the API reference")]
    OutOfRange,
    /// Not the index of an earlier step.
    #[error("must be the index of an earlier step")]
    NotEarlier,
    /// Not the index of a step.
    #[error("must be the index of a step of the program")]
    NoSuchStep,
    /// The value is not made by an input step.
    #[error("is not an input of the program")]
    NotInput,
    /// The value belongs to another program.
    #[error("is a value of another program")]
    OtherProgram,
    /// A step reads the input as elements of a field, but its encoding is narrow.
    #[error("must have a 32-byte encoding: not only MSMs read this input")]
    NarrowEncoding,
    /// The encoding is not one of the vector's field.
    #[error("must have an encoding of the vector's field")]
    OtherEncoding,
    /// The step does not compute in the vector's field.
    #[error("is a vector over {field}: this step does not compute in that field")]
    UnsupportedField {
        /// The vector's field.
        field: FieldId,
    },
    /// The value is a list of points.
    #[error("is a list of points, but must be a vector")]
    IsPoints,
    /// The value is a vector.
    #[error("is a vector, but must be a list of points")]
    IsVector,
    /// The vector's field is not that of the other inputs.
    #[error("is a vector over another field")]
    OtherField,
    /// The vector has another number of rows.
    #[error("wrong number of rows: expected {expected}, got {got}")]
    Rows {
        /// The right number of rows.
        expected: u64,
        /// The number of rows of the value.
        got: u64,
    },
    /// The stored bases are of another group.
    #[error("the stored bases are of another group")]
    OtherGroup,
    /// The stored object is not a matrix.
    #[error("the stored object is not a matrix")]
    NotMatrix,
    /// The id of an object or upload is malformed, unknown or released.
    #[error("no object or upload has this id: check the id, or put it again")]
    UnknownId,
    /// The id of a region is malformed, unknown, released, or of another user.
    #[error("no region has this id: check the id, or open a region")]
    UnknownRegion,
    /// The client has released pages of a region that the call uses.
    #[error("pages of the region were released: open another region")]
    ReleasedPages,
    /// The output would overwrite another output, or an input too early.
    #[error("overlaps another output, or an input that a later step reads")]
    Overlap,
}

impl FieldProblem {
    /// A list or a row of `got` elements, which may have `max` at most.
    pub const fn too_long(max: usize, got: usize) -> Self {
        Self::TooLong { max: max as u64, got: got as u64 }
    }

    /// The reason of requests with this problem.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Unspecified => Reason::Unspecified,
            Self::Missing => Reason::Missing,
            Self::Length { .. } => Reason::LengthMismatch,
            Self::NotCanonical => Reason::NotCanonical,
            Self::NotOnCurve => Reason::NotOnCurve,
            Self::NotInSubgroup => Reason::NotInSubgroup,
            Self::BadInfinity => Reason::BadInfinity,
            Self::BadEncoding | Self::UnusedBits => Reason::BadEncoding,
            Self::Zero | Self::Empty => Reason::SizeZero,
            Self::TooLarge { .. }
            | Self::NoMemory { .. }
            | Self::TooLong { .. }
            | Self::TooMany { .. }
            | Self::ProductTooLong { .. }
            | Self::IntegerTooLong { .. }
            | Self::FactorsTooLarge { .. } => Reason::SizeTooLarge,
            Self::TooSmall { .. }
            | Self::OutOfRange
            | Self::NotDivisor { .. }
            | Self::NotEarlier
            | Self::NoSuchStep
            | Self::NotInput
            | Self::OtherProgram
            | Self::Repeated
            | Self::RepeatedPivot { .. }
            | Self::NarrowEncoding
            | Self::OtherEncoding
            | Self::Overlap => Reason::OutOfRange,
            Self::IsPoints
            | Self::IsVector
            | Self::OtherField
            | Self::UnsupportedField { .. }
            | Self::Rows { .. } => Reason::ValueType,
            Self::OtherGroup | Self::NotMatrix => Reason::ObjectKind,
            Self::UnknownId | Self::UnknownRegion | Self::ReleasedPages => Reason::ObjectUnknown,
        }
    }
}
