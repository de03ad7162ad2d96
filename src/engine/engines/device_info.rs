//! Descriptions of the devices that engines compute on.

use serde::{Deserialize, Serialize};

use crate::curve::Group;

/// A device that an engine computes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// For people: "NVIDIA H200", "2 threads".
    pub name: String,
    /// Short name of the engine: `cpu`, `cuda`.
    pub kind: &'static str,
    /// Number of threads or multiprocessors.
    pub units: u32,
    /// Bytes of memory that it can use.
    pub memory_bytes: u64,
    /// Facts about a GPU.
    pub gpu: Option<GpuInfo>,
}

/// Facts about a GPU. `None` if NVIDIA's management library does not report a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Device number in the driver's order.
    pub index: u32,
    /// Compute capability, such as "9.0".
    pub capability: String,
    /// Version of the installed driver, such as "580.65.06".
    pub driver_version: Option<String>,
    /// CUDA version that the driver supports, such as "13.0".
    pub cuda_version: String,
    /// Whether the driver is the project's emulated one, which runs kernels on the CPU.
    pub emulated: bool,
    /// Architectures that the kernels were compiled for, such as "90".
    pub kernel_archs: Vec<String>,
    /// The outcome of the self-test at startup, in a sentence.
    pub self_test: String,
    /// Bytes of memory that jobs may lease.
    pub arena_bytes: u64,
    /// Bytes of the arena that are free now.
    pub arena_free_bytes: u64,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// Maximum clock of the multiprocessors, MHz.
    pub clock_max_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Die temperature, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power drawn, milliwatts.
    pub power_mw: Option<u32>,
    /// Whether memory error correction is enabled.
    pub ecc: Option<bool>,
    /// Uncorrected memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// Plans of MSMs of some sizes over resident bases, assuming nothing else uses the GPU.
    pub msm_plans: Vec<MsmPlan>,
}

/// The plan of an MSM of one vector over all bases of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MsmPlan {
    /// The curve group.
    pub group: Group,
    /// log2 of the number of bases.
    pub lg_n: u32,
    /// The plan applies from this use of the bases on.
    pub uses: u64,
    /// Windows and tables, for people.
    pub plan: String,
    /// Bits of the widest windows.
    pub window_bits: u32,
    /// Tables of multiples, including the bases themselves.
    pub tables: u32,
    /// Bytes of all tables.
    pub table_bytes: u64,
}
