//! Programs: several operations in one call. `builder` checks each step, `built` is what a run
//! refers to, and `value` has the handles to values.

mod builder;
mod builder_gf2;
mod builder_integers;
mod built;
mod value;

pub use builder::{NttTransform, ProgramBuilder};
pub use builder_gf2::BitMatrixValue;
pub use built::ClientProgram;
pub(crate) use value::ProgramTag;
pub use value::{PointsValue, VectorValue};
