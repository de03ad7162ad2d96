//! Multi-scalar multiplication on a GPU, stage by stage. Every stage is a module of kernels
//! (`kernels/msm/`) and what launches them; it works in memory that it is handed, on one stream,
//! and never waits for the device.
//!
//! Points are named by *references*: their number, counted from the start of the arena in points of
//! their group, and in the top bit whether they count negative. So the points of all tables, and
//! the sums that are in the making, can be added to each other.

pub mod accumulate;
mod points;

pub use points::whole_points;
