//! Uploads and decodes the elements.

use std::sync::Arc;

use crate::{
    engines::cuda::GpuVector,
    error::{Error, Result},
    operation::InputStep,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for InputStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let missing = || Error::Internal("the step's input is missing".into());
        let (shape, elements) = (context.shape()?, context.input.ok_or_else(missing)?);
        let (rows, length) = (shape.rows() as usize, shape.length() as usize);
        Ok(context.gpu.upload(&elements, shape.field(), rows, length)?.into())
    }
}
