//! Products of integers run on the host: `RunCall::needs_host` keeps them from GPUs.

use std::sync::Arc;

use super::IntMulStep;
use crate::{
    engine::cuda::GpuVector,
    error::{Error, Result},
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for IntMulStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, _: GpuContext<'_>) -> Result<LaunchedStep> {
        Err(Error::Internal("products of integers run on the host".into()))
    }
}
