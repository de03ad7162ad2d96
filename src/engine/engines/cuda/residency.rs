//! Changes of the bases that GPUs hold, apart from the uses of jobs.

use std::sync::Arc;

use tracing::error;

use super::{BasesFit, CudaEngine, ServingGpu, resident_bases::ResidentBases};
use crate::{
    curve::points::Bases,
    engines::{BasesDevice, DeviceResidency, JobControl, ResidencyChange, ResidentObject},
    error::{Error, Limit, Result},
    sparse::SparseMatrix,
};

impl CudaEngine {
    /// The GPUs in use.
    pub fn bases_devices(&self) -> Vec<BasesDevice> {
        let device = |gpu: &ServingGpu| BasesDevice {
            index: gpu.gpu.identity().index,
            bytes: gpu.gpu.arena().bytes(),
            is_serving: true,
        };
        self.gpus.iter().map(device).collect()
    }

    /// What GPU number `device` holds; nothing if there is no such GPU.
    pub fn residency(&self, device: u32) -> Vec<ResidentObject> {
        let gpu = self.gpus.iter().find(|gpu| gpu.gpu.identity().index == device);
        gpu.map_or_else(Vec::new, |gpu| gpu.msm.resident().bases().describe(device))
    }

    /// Changes what GPU number `device` holds of the object that `bases` are part of. Returns what
    /// it holds then.
    ///
    /// Errors: `Internal` if there is no such GPU; `Exhausted` if there is no memory; those of
    /// `control`; `DeviceLost`.
    pub fn set_residency(
        &self,
        device: u32,
        bases: &Bases,
        change: ResidencyChange,
        control: &JobControl,
    ) -> Result<DeviceResidency> {
        let gpu = self.gpus.iter().find(|gpu| gpu.gpu.identity().index == device);
        let gpu = gpu.ok_or_else(|| Error::Internal("there is no such GPU".into()))?;
        let whole = bases.all_of_owner();
        let held = gpu.msm.resident().bases();
        match change {
            ResidencyChange::Warm { bytes_max } => drop(warm(gpu, &whole, bytes_max, control)?),
            ResidencyChange::Pin { bytes_max } => {
                // In use, so that nothing evicts them before they are pinned.
                let _in_use = warm(gpu, &whole, bytes_max, control)?;
                held.set_pinned(&whole, true);
            }
            ResidencyChange::Unpin => held.set_pinned(&whole, false),
            ResidencyChange::Evict => held.evict(&whole),
        }
        let held = held.get(&whole).map(|entry| entry.residency(device));
        Ok(held.unwrap_or(DeviceResidency::none(device)))
    }

    /// Makes all GPUs forget what they keep of these objects, and all twiddle tables: any of it may
    /// be damaged, since a result was wrong. The next job uploads and builds it again.
    pub fn evict_suspects(&self, bases: &[Bases], matrices: &[SparseMatrix]) {
        for gpu in &self.gpus {
            let device = gpu.gpu.identity().index;
            let resident = gpu.msm.resident();
            error!(device, "a result is wrong: its bases, matrices and all tables are evicted");
            bases.iter().for_each(|bases| resident.bases().evict(&bases.all_of_owner()));
            matrices.iter().for_each(|matrix| resident.matrices().evict(matrix));
            gpu.ntt.evict_tables();
            gpu.words.transforms.evict_tables();
        }
    }
}

fn warm(
    gpu: &ServingGpu,
    whole: &Bases,
    bytes_max: u64,
    control: &JobControl,
) -> Result<Arc<ResidentBases>> {
    let points = whole.len();
    if gpu.bases_room(whole).fit(whole.group(), points, points, 1) != BasesFit::Whole {
        return Err(no_memory());
    }
    let stream = gpu.gpu.job_stream()?;
    gpu.msm.resident().warm(&stream, whole, bytes_max, control)
}

fn no_memory() -> Error {
    Error::Exhausted { limit: Limit::DeviceMemory, retry_after: None }
}
