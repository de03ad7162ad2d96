//! The elements of transforms in device memory.

use crate::device::DevicePtr;

/// log2 of the longest transform: four passes, and 32 GiB of elements.
pub const LG_N_MAX: u32 = 30;

/// An element in device memory: the limbs of its Montgomery form, as in `curve::layout`.
pub type DeviceFr = [u64; 4];

/// Elements in device memory, as kernels take them.
pub(super) type ElementPtr = DevicePtr<DeviceFr>;

pub(super) const ELEMENT_BYTES: u64 = size_of::<DeviceFr>() as u64;
