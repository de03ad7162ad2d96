//! What engines say of what they compute on.

use crate::curve::Group;

/// Something that computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// For people: "NVIDIA H200", "2 threads".
    pub name: String,
    /// `cpu` or `cuda`.
    pub kind: &'static str,
    /// Threads, or multiprocessors.
    pub units: u32,
    /// Bytes of memory that it can use.
    pub memory_bytes: u64,
    /// What only GPUs have.
    pub gpu: Option<GpuInfo>,
}

/// What is known of a GPU. `None` where NVIDIA's management library does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuInfo {
    /// As the driver numbers them.
    pub index: u32,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Version of the installed driver, such as "580.65.06".
    pub driver: Option<String>,
    /// CUDA version that the driver serves, major and minor.
    pub cuda: (u32, u32),
    /// Whether the driver is the project's emulation of one, on the CPU.
    pub emulated: bool,
    /// Architectures that the kernels were compiled for, such as "90".
    pub kernel_archs: Vec<String>,
    /// What the self-test at the start found, in a sentence.
    pub self_test: String,
    /// Bytes of memory that jobs may lease.
    pub arena_bytes: u64,
    /// Bytes of these that are not leased now.
    pub arena_free_bytes: u64,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// The greatest that the device may use.
    pub clock_max_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Of the die, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power drawn, milliwatts.
    pub power_mw: Option<u32>,
    /// Whether memory has error correction switched on.
    pub ecc: Option<bool>,
    /// Errors that could not be corrected since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// How MSMs of some sizes are done over bases that stay, where nothing else does.
    pub msm_plans: Vec<MsmPlan>,
}

/// How an MSM of one vector is done over all of an object of bases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsmPlan {
    /// Of the bases.
    pub group: Group,
    /// log2 of how many there are.
    pub lg_n: u32,
    /// From this use of the bases on.
    pub uses: u64,
    /// For people: windows and tables.
    pub plan: String,
    /// Bits of the widest windows.
    pub window_bits: u32,
    /// Tables of multiples, the bases themselves among them.
    pub tables: u32,
    /// Bytes that these take.
    pub table_bytes: u64,
}
