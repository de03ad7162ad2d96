//! Multi-scalar multiplication on a GPU by Pippenger's algorithm, stage by stage. Every stage is a
//! module of kernels (`kernels/msm/`) and what launches them; it works in memory that it is handed,
//! on one stream, and never waits for the device.
//!
//! [`Windows`] say how scalars are cut into digits, [`sort`] brings the digits into the order of
//! buckets, [`accumulate`] sums each bucket, [`reduce`] the buckets; [`tables`] are multiples of
//! the bases, so that windows share buckets. [`Plan`] chooses windows and cuts an MSM into passes
//! that fit into memory, and [`Msm`] runs them.
//!
//! Points are named by *references*: their number, counted from the start of the arena in points of
//! their group, and in the top bit whether they count negative. So the points of all tables, and
//! the sums that are in the making, can be added to each other.

pub mod accumulate;
mod plan;
mod points;
pub mod reduce;
mod run;
pub mod sort;
pub mod tables;
mod windows;

pub use plan::{Cuts, Job, Kept, Memory, Pass, Plan, Room, Stage};
pub use points::whole_points;
pub use run::{Marks, Msm, Placed};
pub use windows::{BITS_MAX, BITS_MIN, Digit, Fixed, Radix, Sliding, Windows};
