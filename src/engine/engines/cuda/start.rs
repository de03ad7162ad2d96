//! Starts the engine: loads its GPUs and tests them.

use std::sync::Arc;

use super::{
    CudaEngine, CudaModel, GpuPolicy, payload_copy::PayloadCopier, self_test,
    serving_gpu::ServingGpu,
};
use crate::{
    device::{GpuUnavailable, NvmlMonitor, OpenDevices, UnusableDevice},
    engines::cpu::CpuEngine,
};

impl CudaEngine {
    /// Loads the kernels on every opened GPU and tests them. A GPU that cannot load them or
    /// computes wrong results is left out.
    ///
    /// Errors: `AllLeftOut` if no GPU can be used.
    pub fn new(
        cpu: CpuEngine,
        opened: OpenDevices,
        policy: GpuPolicy,
    ) -> Result<Self, GpuUnavailable> {
        Self::load(cpu, opened, policy).with_tested_gpus()
    }

    /// Loads the kernels on every opened GPU. A GPU that cannot load them is left out.
    pub fn load(cpu: CpuEngine, opened: OpenDevices, policy: GpuPolicy) -> Self {
        let policy = Arc::new(policy);
        let OpenDevices { gpus: opened, unusable: mut left_out } = opened;
        let copier = PayloadCopier(cpu.threads().clone());
        let mut gpus = Vec::new();
        for gpu in opened {
            let index = gpu.identity().index;
            match ServingGpu::load(gpu, &copier, &policy) {
                Ok(gpu) => gpus.push(gpu),
                Err(reason) => left_out.push(UnusableDevice { index, reason }),
            }
        }
        let (next_job, next_check) = Default::default();
        let cpu = Arc::new(cpu);
        let monitor = NvmlMonitor::open();
        let model = CudaModel {
            cpu: cpu.clone(),
            gpus: gpus.iter().map(ServingGpu::facts).collect(),
            msm_scalars_min: policy.msm_scalars_min,
            ntt_elements_min: policy.ntt_elements_min,
            integer_limbs_min: policy.integer_limbs_min,
        };
        Self { cpu, gpus, model, policy, next_job, next_check, monitor, left_out }
    }

    /// Tests the GPUs, and leaves those out that fail.
    ///
    /// Errors: `AllLeftOut` if no GPU can be used.
    pub fn with_tested_gpus(self) -> Result<Self, GpuUnavailable> {
        let engine = Arc::new(self);
        let outcomes: Vec<_> =
            (0..engine.gpus.len()).map(|number| self_test::run(&engine, number)).collect();
        let mut engine = Arc::into_inner(engine).expect("no job of the test is left");
        // From the last one on, so that the numbers of the others stay.
        for (number, outcome) in outcomes.into_iter().enumerate().rev() {
            match outcome {
                Ok(outcome) => engine.gpus[number].add_self_test(&outcome),
                Err(reason) => {
                    engine.model.gpus.remove(number);
                    let index = engine.gpus.remove(number).gpu.identity().index;
                    engine.left_out.push(UnusableDevice { index, reason });
                }
            }
        }
        match engine.gpus.is_empty() {
            true => Err(GpuUnavailable::AllLeftOut(engine.left_out)),
            false => Ok(engine),
        }
    }
}
