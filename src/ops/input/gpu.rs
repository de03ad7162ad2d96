//! Uploads and decodes the elements.

use std::sync::Arc;

use super::InputStep;
use crate::{
    engine::cuda::GpuVector,
    error::{Error, Result},
    field::FieldId,
    ops::gpu::{GpuContext, GpuStep, LaunchedStep},
};

impl GpuStep for InputStep {
    fn launch(&self, _: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep> {
        let missing = || Error::Internal("the step's input is missing".into());
        let (shape, elements) = (context.shape()?, context.input.ok_or_else(missing)?);
        let (rows, length) = (shape.rows() as usize, shape.length() as usize);
        if shape.field() == FieldId::Gf2 {
            return Ok(context.gpu.upload_bits(&elements, rows, length)?.into());
        }
        Ok(context.gpu.upload(&elements, rows, length)?.into())
    }
}
