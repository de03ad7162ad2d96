//! Multi-scalar multiplication on a GPU with Pippenger's algorithm. Each stage is a module that
//! launches its kernels (`kernels/msm/`) on one stream, in the caller's memory, and never waits for
//! the device.
//!
//! [`Recoding`] defines the signed-digit recoding of scalars, [`sort`] sorts the digits by bucket,
//! [`accumulate`] does the bucket accumulation, [`reduce`] the bucket reduction; [`tables`] hold
//! precomputed multiples of the bases, so that windows share buckets. [`MsmPassPlan`] chooses
//! windows and splits an MSM into passes that fit into memory, and [`MsmKernels`] runs the passes.
//!
//! Kernels name points by *references*: the point's index, counted from the start of the arena in
//! points of its group, with the sign in the top bit. So points of all tables and intermediate sums
//! can be added to each other.

pub mod accumulate;
mod launch;
mod plan;
pub mod reduce;
pub mod references;
mod run;
pub mod sort;
pub mod tables;
mod windows;

pub use plan::{
    BaseMemory, MsmBudget, MsmPass, MsmPassPlan, MsmSize, ResidentMsms, ResidentPlan,
    SplitThresholds, TableStage,
};
pub use references::{AlignedPoints, BasesLocation};
pub use run::{MsmKernels, MsmPassMemory, MsmStageTimes, StageEvents};
pub use windows::{BITS_MAX, BITS_MIN, FixedWindows, RadixDigits, Recoding, SlidingWindows};
