//! The engine of hosts with GPUs: GPUs check points and compute MSMs and NTTs. Small jobs, and NTTs
//! for which no GPU has memory, go to the CPU engine that this one contains.

mod bases_fit;
mod bit_columns;
mod elimination;
mod elimination_in_blocks;
mod fingerprint;
mod integers;
mod large_bases;
mod long_work;
mod model;
mod msm;
mod ntt;
mod payload_copy;
mod point_check;
mod policy;
mod refused_bits;
mod residency;
mod resident;
mod resident_bases;
mod resident_entries;
mod resident_matrices;
mod resident_upload;
mod scalar_codec;
pub mod self_test;
mod serving_gpu;
mod start;
mod step_turn;
mod vector;
mod vector_msm;
mod vectors;
mod vectors31;
mod workspace;

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tracing::{debug, warn};

use self::{bases_fit::BasesFit, large_bases::MsmInParts, serving_gpu::ServingGpu};
use super::{
    DeviceInfo, EliminatedRows, EliminationWork, EngineModel, EngineWork, ExecutedBy, JobControl,
    MsmNttEngine, MsmRun, NttPlan, NttRows, PointChecker, cpu::CpuEngine,
};
use crate::{
    curve::{
        Group,
        points::{BadElement, Bases, PointEncoding, PointsMut},
    },
    device::NvmlMonitor,
    error::Result,
    field::{Element31, Field31, FieldId},
    gf2::MatrixElimination,
    ntt::LG_N_MAX,
    region::SharedMemory,
    sparse::SparseMatrix,
};

pub use self::{
    elimination::VectorElimination,
    model::{CudaModel, GpuFacts},
    point_check::piece_len as checked_piece_len,
    policy::{GpuPolicy, INTEGER_LIMBS_MIN},
    refused_bits::{EliminationInput, RefusedBits},
    vector::GpuVector,
    vectors::{GpuVectors, RefusedElement, TransformedVector, elapsed},
};
pub use crate::device::{
    DeviceFault, DevicePolicy, DeviceSelection, FaultClass, GpuUnavailable, MajorMinor,
    OpenOptions, SERVER_MEMORY_WAIT, UnusableDevice, exit_later, exit_without_handlers, open,
};

/// GPUs and the CPU.
pub struct CudaEngine {
    cpu: Arc<CpuEngine>,
    gpus: Vec<ServingGpu>,
    model: CudaModel,
    policy: Arc<GpuPolicy>,
    /// Jobs and point checks are dealt out round-robin.
    next_job: AtomicUsize,
    next_check: AtomicUsize,
    monitor: NvmlMonitor,
    left_out: Vec<UnusableDevice>,
}

impl CudaEngine {
    /// Number of GPUs in use.
    pub fn gpu_count(&self) -> usize {
        self.gpus.len()
    }

    /// GPUs that were requested and cannot be used.
    pub fn left_out(&self) -> &[UnusableDevice] {
        &self.left_out
    }

    /// How many GPUs are used and left out, in a sentence for the operator.
    pub fn summary(&self) -> String {
        used_and_left_out(self.gpu_count(), self.left_out.len())
    }

    /// Lets all GPUs access the first `bytes` bytes of shared memory directly until the value is
    /// dropped, or as many as the driver grants; `None` if it grants no byte.
    pub fn pin_memory(
        &self,
        memory: &Arc<SharedMemory>,
        bytes: usize,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let pinned = self.gpus.first()?.gpu.context().pin_shared(memory.clone(), bytes);
        // Without it, the copies are staged.
        let pinned = pinned.inspect_err(|fault| warn!(%fault, "cannot pin memory"));
        Some(Box::new(pinned.ok()?))
    }

    /// The CPU and the GPUs, with current readings. May take milliseconds.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        let cpu = [self.cpu.description()];
        cpu.into_iter().chain(self.gpus.iter().map(|gpu| gpu.info(&self.monitor))).collect()
    }

    /// What the engine takes for its work.
    pub fn model(&self) -> &CudaModel {
        &self.model
    }

    /// Whether a GPU holds the object that `bases` are part of, for tests of eviction.
    pub fn has_resident(&self, bases: &Bases) -> bool {
        self.gpus.iter().any(|gpu| gpu.msm.resident().bases().contains(bases))
    }

    /// Whether a GPU holds the matrix, for tests of eviction.
    pub fn has_resident_matrix(&self, matrix: &SparseMatrix) -> bool {
        self.gpus.iter().any(|gpu| gpu.msm.resident().matrices().contains(matrix))
    }

    /// The index of the GPU that holds the first of `bases` that is resident, else of the next one.
    fn gpu_for(&self, bases: &[Bases]) -> usize {
        let holds =
            |bases| self.gpus.iter().position(|gpu| gpu.msm.resident().bases().contains(bases));
        bases.iter().find_map(holds).unwrap_or_else(|| self.next_gpu(&self.next_job))
    }

    fn next_gpu(&self, next: &AtomicUsize) -> usize {
        next.fetch_add(1, Ordering::Relaxed) % self.gpus.len()
    }
}

/// How many GPUs are used and left out, in a sentence.
pub fn used_and_left_out(used: usize, left_out: usize) -> String {
    let used = match used {
        1 => "1 GPU passed its self-test".to_owned(),
        n => format!("{n} GPUs passed their self-test"),
    };
    match left_out {
        0 => used,
        n => format!("{used}; {n} cannot be used"),
    }
}

impl EngineModel for CudaEngine {
    fn description(&self) -> DeviceInfo {
        self.model.description()
    }

    fn msm_piece_len(&self, group: Group, n: usize) -> usize {
        self.model.msm_piece_len(group, n)
    }

    fn ntt_group_rows(&self, lg_n: u32) -> usize {
        self.model.ntt_group_rows(lg_n)
    }

    fn msm_scratch_bytes(&self, group: Group, n: usize) -> u64 {
        self.model.msm_scratch_bytes(group, n)
    }

    fn ntt_scratch_bytes(&self, field: FieldId, lg_n: u32) -> u64 {
        self.model.ntt_scratch_bytes(field, lg_n)
    }

    fn models_copies(&self) -> bool {
        self.model.models_copies()
    }

    fn modelled_time(&self, work: &EngineWork) -> Duration {
        self.model.modelled_time(work)
    }
}

impl MsmNttEngine for CudaEngine {
    fn msm(&self, bases: Bases, batch: usize) -> Result<Box<dyn MsmRun>> {
        let scalars = (bases.len() as u64).saturating_mul(batch as u64);
        if scalars == 0 || scalars < self.policy.msm_scalars_min {
            return self.cpu.msm(bases, batch);
        }
        let gpu = &self.gpus[self.gpu_for(std::slice::from_ref(&bases))];
        let split = self.policy.split;
        let object_points = bases.all_of_owner().len();
        let fit = gpu.bases_room(&bases).fit(bases.group(), object_points, bases.len(), batch);
        Ok(match fit {
            BasesFit::Whole => gpu.msm.run(bases, batch, split),
            BasesFit::OwnRange => gpu.msm.run(bases.as_own_object(), batch, split),
            BasesFit::Parts(points) => {
                Box::new(MsmInParts::new(gpu.msm.clone(), bases, batch, points, split))
            }
            BasesFit::TooLarge => return self.cpu.msm(bases, batch),
        })
    }

    fn ntt(&self, plan: &NttPlan, rows: &NttRows<'_>, control: &JobControl) -> Result<ExecutedBy> {
        let is_large = plan.lg_n <= LG_N_MAX
            && (rows.count as u64) << plan.lg_n >= self.policy.ntt_elements_min;
        if is_large {
            let planned = ntt::group_rows(plan.lg_n, rows.count);
            let (last, first) = self.gpus.split_at(self.next_gpu(&self.next_job));
            for gpu in first.iter().chain(last) {
                if let Some(executor) = gpu.ntt.run(planned, plan, rows, control)? {
                    return Ok(executor);
                }
            }
            debug!(lg_n = plan.lg_n, rows = rows.count, "no GPU has memory for the NTT");
        }
        self.cpu.ntt(plan, rows, control)
    }

    fn ntt31(
        &self,
        field: Field31,
        plan: &NttPlan<Element31>,
        rows: &mut [Vec<Element31>],
        control: &JobControl,
    ) -> Result<ExecutedBy> {
        self.cpu.ntt31(field, plan, rows, control)
    }

    fn eliminate(
        &self,
        matrix: &mut MatrixElimination<'_>,
        control: &JobControl,
    ) -> Result<Option<EliminatedRows>> {
        let work = EliminationWork {
            rows: matrix.rows.rows() as u64,
            pivots: matrix.given.rows() as u64,
            words: matrix.rows.row_words() as u64,
        };
        if self.policy.block_strips_max.is_none() && !self.model.eliminates_in_blocks(&work) {
            return Ok(None);
        }
        self.eliminate_in_blocks(matrix, &work, control)
    }
}

impl PointChecker for CudaEngine {
    fn piece_len(&self, _: Group, encoding: PointEncoding, count: usize) -> Option<usize> {
        point_check::piece_len(encoding, count)
    }

    fn check(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: PointsMut<'_>,
    ) -> Result<Result<(), BadElement>> {
        let checker = &self.gpus[self.next_gpu(&self.next_check)].points;
        match out {
            PointsMut::G1(out) => checker.check(encoding, bytes, out),
            PointsMut::G2(out) => checker.check(encoding, bytes, out),
        }
    }
}
