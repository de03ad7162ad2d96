//! Elimination over GF(2) on a GPU, in device memory: on a stream, without waiting for the device.
//!
//! A matrix lies in strips of 256 columns, and elimination goes from panel to panel, each a strip.
//! One block finds a panel's pivots and how they are combined. Then all rows are updated in that
//! strip and the strips after it, by binary matrix instructions, or by tables on devices without
//! them; the next panel's strip is first, and its pivots are found while the others are updated.
//! The results are those of the elimination on the host, row by row.
//!
//! The whole matrix must fit into the memory of the device, twice: packed, and in strips. Of a
//! larger one in the host's memory, the device has a block of columns at a time (`blocks`).

mod blocks;
mod duration;
mod elimination;
mod kernels;
mod launch;
mod layout;
mod strips;

pub use blocks::HostBitsShape;
pub use duration::{elimination_time, panels_time};
pub use elimination::{
    EliminationLaunch, GpuElimination, GpuEliminationScratch, elimination_bytes,
};
pub use kernels::{EliminationKernels, RowUpdate};
pub use layout::stored_row;
pub use strips::{DeviceBits, DeviceBitsShape, DeviceRow, STRIP_COLUMNS};

pub use crate::gf2::ReducedRows;
