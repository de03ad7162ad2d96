//! Steps over GF(2) run on the host: `RunCall::needs_host` keeps them from GPUs.

use std::sync::Arc;

use super::Gf2ReduceStep;
use crate::{
    engine::cuda::GpuVector,
    error::{Error, Result},
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for Gf2ReduceStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, _: GpuContext<'_>) -> Result<LaunchedStep> {
        Err(Error::Internal("steps over gf2 run on the host".into()))
    }
}
