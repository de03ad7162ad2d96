//! How the engine uses its GPUs.
//!
//! Tests change an engine by its policy only: `DevicePolicy` and `GpuPolicy` are given when a
//! device is opened and the engine is made. Their defaults are what the daemon uses; tests limit
//! the shared memory, set the thresholds at which an MSM is split, and refuse leases or cancel jobs
//! at the n-th check. There are two because `device` knows neither MSMs nor jobs.

use std::sync::Arc;

use super::self_test::SelfTestSizes;
use crate::{engines::CancellationGate, msm::SplitThresholds};

/// What servers set for [`GpuPolicy::integer_limbs_min`]: calls with shorter products take less
/// time on the CPU (`benches/experiments/integers.md`).
pub const INTEGER_LIMBS_MIN: u64 = 6 << 10;

/// The engine's name in descriptions and results.
pub(super) const ENGINE: &str = "cuda";

/// How a [`CudaEngine`](super::CudaEngine) uses its GPUs. With the default they compute every job.
#[derive(Clone)]
pub struct GpuPolicy {
    /// MSMs with fewer scalars, all vectors together, run on the CPU, which finishes them sooner.
    pub msm_scalars_min: u64,
    /// NTTs with fewer elements, all rows together, run on the CPU, which finishes them sooner.
    pub ntt_elements_min: u64,
    /// Programs over integers run on the CPU if their values have fewer limbs, all together.
    pub integer_limbs_min: u64,
    /// When MSMs are split into passes.
    pub split: SplitThresholds,
    /// Objects with more bytes of bases do not stay on a device: their parts are uploaded for each
    /// MSM. `None` if the device's memory decides.
    pub bases_bytes_max: Option<u64>,
    /// The most terms of sparse products that are launched and not done. The default takes a few
    /// milliseconds, by the kernel's instructions.
    pub sparse_terms_launched_max: u64,
    /// The most strips of 256 columns that a GPU has at a time of a matrix of bits in the host's
    /// memory. If this is set, a GPU eliminates any such matrix; if it is `None`, only those that
    /// take less time than on the CPU.
    pub block_strips_max: Option<u32>,
    /// The jobs of the self-test; `None` for those that suit the device.
    pub self_test: Option<SelfTestSizes>,
    /// Consulted at each check of a job.
    pub cancellation_gate: CancellationGate,
}

impl Default for GpuPolicy {
    fn default() -> Self {
        Self {
            msm_scalars_min: 0,
            ntt_elements_min: 0,
            integer_limbs_min: 0,
            split: SplitThresholds::default(),
            bases_bytes_max: None,
            sparse_terms_launched_max: 1 << 26,
            block_strips_max: None,
            self_test: None,
            cancellation_gate: Arc::new(|| true),
        }
    }
}
