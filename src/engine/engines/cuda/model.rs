//! Models the memory and time of the GPU engine. It needs no GPU: a process without CUDA makes it
//! from the facts that the process with the GPU reports.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::policy::ENGINE;
use crate::{
    curve::Group,
    device::DeviceLimits,
    engines::{DeviceInfo, EliminationWork, EngineModel, EngineWork, VectorWork, cpu::CpuEngine},
    field::FieldId,
    gf2_elimination::{HostBitsShape, elimination_time},
    msm::ResidentMsms,
    ntt::{self, LG_N_MAX},
    ntt31,
};

/// Copying an element of 32 bytes between host and device at 53.7 GB/s
/// (`benches/experiments/host-device.md`).
const TRANSFER_NS: f64 = 32.0 / 53.7;
/// The fixed cost of a copy: its launch, and the wait until the host sees its end.
const TRANSFER_LATENCY_NS: f64 = 10e3;

/// Most scalars in one piece of an MSM: long enough on the link to outweigh waking the threads that
/// copy them (`benches/experiments/host-device.md`).
const MSM_PIECE: usize = 1 << 19;

/// Elements in one piece of a batch of NTTs: 32 MiB, several groups, so that their copies overlap.
const NTT_PIECE: usize = 1 << 20;

/// What the model knows of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// Device number in the driver's order.
    pub index: u32,
    /// The device's name.
    pub name: String,
    /// What plans know of the device.
    pub limits: DeviceLimits,
    /// Bytes of the GPU's memory.
    pub memory_bytes: u64,
    /// Bytes that jobs can lease.
    pub arena_bytes: u64,
}

/// What an engine of GPUs takes. The first GPU stands for all.
#[derive(Clone)]
pub struct CudaModel {
    /// Computes small jobs, and NTTs that do not fit.
    pub cpu: Arc<CpuEngine>,
    /// The GPUs that serve; a plan for the first one holds for all.
    pub gpus: Vec<GpuFacts>,
    /// MSMs with fewer scalars run on the CPU.
    pub msm_scalars_min: u64,
    /// NTTs with fewer elements run on the CPU.
    pub ntt_elements_min: u64,
    /// Programs over integers whose values have fewer limbs run on the CPU.
    pub integer_limbs_min: u64,
}

impl CudaModel {
    /// The most bytes that a job can lease on a GPU.
    pub fn device_bytes(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.arena_bytes).max().unwrap_or(0)
    }

    /// Whether a GPU eliminates a matrix in the host's memory faster than the CPU.
    pub fn eliminates_in_blocks(&self, matrix: &EliminationWork) -> bool {
        let on_cpu = self.cpu.modelled_time(&EngineWork::Elimination(*matrix));
        self.time_in_blocks(matrix) < on_cpu
    }

    /// Whether the CPU would take more than twice the time that the elimination of a matrix in the
    /// host's memory was admitted with.
    pub fn takes_long_on_cpu(&self, matrix: &EliminationWork) -> bool {
        let on_cpu = self.cpu.modelled_time(&EngineWork::Elimination(*matrix));
        self.time_in_blocks(matrix).saturating_mul(2) < on_cpu
    }

    /// The modelled time of the elimination of a matrix in the host's memory on a GPU.
    fn time_in_blocks(&self, matrix: &EliminationWork) -> Duration {
        let Some(GpuFacts { limits, arena_bytes, .. }) = self.gpus.first() else {
            return Duration::MAX;
        };
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let EliminationWork { rows, pivots, words } = *matrix;
        let (given, rows, columns) = (small(pivots), small(rows), small(64 * words));
        let shape = HostBitsShape { given, rows, columns };
        let (on_device, copied) = shape.time_in_blocks(*arena_bytes, limits);
        on_device.saturating_add(transfer(copied / 32))
    }

    /// The modelled time of work on operands in a GPU's memory. The bases of MSMs are there as
    /// well, with the tables that bases get if they are used often.
    pub fn time_on_device(&self, work: &EngineWork) -> Duration {
        let Some(GpuFacts { limits, arena_bytes, .. }) = self.gpus.first() else {
            return Duration::MAX;
        };
        match *work {
            EngineWork::Msm { group, n, vectors } => {
                ResidentMsms { group, n, vectors }.modelled_time(*arena_bytes, limits)
            }
            EngineWork::Ntt { field: FieldId::Prime31(_), lg_n, rows } => {
                ntt31::transform31_time(lg_n, rows, limits)
            }
            EngineWork::Elimination(EliminationWork { rows, words, .. }) => {
                elimination_time(rows, 64 * words, limits)
            }
            EngineWork::Ntt { lg_n, rows, .. } => ntt::transform_time(lg_n, rows, limits),
            EngineWork::Vectors(VectorWork { products, bytes, is_scan }) => {
                ntt::vector_time(products, bytes, is_scan, limits)
            }
            EngineWork::Transfer { bytes } => transfer(bytes / 32),
        }
    }
}

impl EngineModel for CudaModel {
    fn description(&self) -> DeviceInfo {
        let names: Vec<_> = self.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        DeviceInfo {
            name: names.join(", "),
            kind: ENGINE,
            units: self.gpus.iter().map(|gpu| gpu.limits.multiprocessors).sum(),
            memory_bytes: self.gpus.iter().map(|gpu| gpu.memory_bytes).sum(),
            gpu: None,
        }
    }

    fn msm_piece_len(&self, _: Group, n: usize) -> usize {
        n.min(MSM_PIECE)
    }

    fn ntt_group_rows(&self, lg_n: u32) -> usize {
        NTT_PIECE.checked_shr(lg_n).unwrap_or(0).max(1)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.cpu.msm_scratch_bytes(group, n)
    }

    fn ntt_scratch_bytes(&self, field: FieldId, lg_n: u32) -> u64 {
        // A GPU uses its pinned memory, but the CPU takes over if no GPU has memory.
        self.cpu.ntt_scratch_bytes(field, lg_n)
    }

    fn models_copies(&self) -> bool {
        true
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        let on_device = |elements| self.time_on_device(work).saturating_add(transfer(elements));
        match *work {
            EngineWork::Msm { n, vectors, .. } => {
                let scalars = n.saturating_mul(vectors.into());
                match scalars >= self.msm_scalars_min {
                    true => on_device(scalars),
                    false => self.cpu.modelled_time(work),
                }
            }
            EngineWork::Ntt { field: FieldId::Prime31(_), .. } => self.cpu.modelled_time(work),
            EngineWork::Ntt { lg_n, rows, .. } => {
                let elements = u64::from(rows) << lg_n;
                let fits = lg_n <= LG_N_MAX && 32 << lg_n <= self.device_bytes();
                match fits && elements >= self.ntt_elements_min {
                    // Copied in both directions.
                    true => on_device(elements).saturating_add(transfer(elements)),
                    false => self.cpu.modelled_time(work),
                }
            }
            EngineWork::Elimination(matrix) => {
                self.time_in_blocks(&matrix).min(self.cpu.modelled_time(work))
            }
            // Programs whose values are in host memory compute these there.
            EngineWork::Vectors(_) | EngineWork::Transfer { .. } => self.cpu.modelled_time(work),
        }
    }
}

/// The time of a copy between host and device.
fn transfer(elements: u64) -> Duration {
    Duration::from_nanos((elements as f64 * TRANSFER_NS + TRANSFER_LATENCY_NS) as u64)
}
