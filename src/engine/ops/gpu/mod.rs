//! How steps run on a GPU: values in its memory, all work in order on one stream.

mod any_field;
mod arithmetic;
mod elimination;
mod field;
mod fr;
mod prime31;
mod sums;

pub use any_field::{AnyFieldGpuStep, launch_in_any_field};
pub use elimination::{EliminationFields, bit_shape, launch_elimination};
pub use field::{GpuField, GpuProductSpec};
pub use sums::{PendingCheck, PendingSums};

use std::sync::Arc;

use crate::{
    curve::points::Bases,
    engines::{
        EncodedScalars,
        cuda::{GpuVector, GpuVectors, VectorElimination},
    },
    error::{Error, Result},
    program::{ValueType, VectorShape},
    sparse::SparseMatrix,
};

/// A value of a program that runs on a GPU.
pub enum GpuValue {
    /// Shared by the steps that still read it. The last one may overwrite it.
    Vector(Arc<GpuVector>),
    /// Sums that the GPU is computing.
    Sums(PendingSums),
    /// A vector over GF(2) that is computed in pieces, which are launched one after another.
    Elimination(Box<VectorElimination>),
}

/// What a step computes with.
pub struct GpuContext<'c> {
    pub gpu: &'c mut GpuVectors,
    /// The type of the value to make.
    pub value_type: ValueType,
    /// The elements of an input step.
    pub input: Option<EncodedScalars<'c>>,
    /// The bases of a step that uses bases.
    pub bases: Option<&'c Bases>,
    /// The matrix of a step that uses one.
    pub matrix: Option<&'c SparseMatrix>,
    /// Whether to check the value, if the kind of step has a check on the device.
    pub is_checked: bool,
}

/// A launched step.
pub struct LaunchedStep {
    pub value: GpuValue,
    /// How the value is computed; empty if there is nothing to tell.
    pub method: String,
    /// Whether the value has been checked, or will be when the sums are read.
    pub is_checked: bool,
}

/// A kind of step that is computed on a GPU.
pub trait GpuStep {
    /// Launches the step after all earlier work of the same program. Returns before it is done. A
    /// value that only `inputs` holds may be overwritten.
    ///
    /// Errors: `Exhausted` if the device has no memory; `Corrupt` if the check fails; those of the
    /// job's control; `DeviceLost`.
    fn launch(&self, inputs: Vec<Arc<GpuVector>>, context: GpuContext<'_>) -> Result<LaunchedStep>;
}

impl From<Arc<GpuVector>> for LaunchedStep {
    fn from(vector: Arc<GpuVector>) -> Self {
        let value = GpuValue::Vector(vector);
        let method = String::new();
        Self { value, method, is_checked: false }
    }
}

impl From<GpuVector> for LaunchedStep {
    fn from(vector: GpuVector) -> Self {
        Arc::new(vector).into()
    }
}

impl GpuContext<'_> {
    /// The shape of the vector to make.
    pub fn shape(&self) -> Result<VectorShape> {
        match self.value_type {
            ValueType::Vector(shape) => Ok(shape),
            ValueType::Points(_) => Err(Error::Internal("the step makes points".into())),
        }
    }

    /// A vector of zeros for the value.
    pub fn zeros(&self) -> Result<GpuVector> {
        let shape = self.shape()?;
        self.gpu.zeros(shape.field(), shape.rows() as usize, shape.length() as usize)
    }

    /// Launches a step whose value may replace an input of the same shape: one that no other step
    /// reads, else it gets new memory. `launch` is given the value.
    pub fn in_place(
        self,
        inputs: &[Arc<GpuVector>],
        launch: impl FnOnce(&GpuVectors, &GpuVector) -> Result<()>,
    ) -> Result<LaunchedStep> {
        let shape = self.shape()?;
        let is_free =
            |vector: &&Arc<GpuVector>| vector.has_shape(shape) && Arc::strong_count(vector) == 1;
        let free = inputs.iter().find(is_free).cloned();
        let out = free.map_or_else(|| self.zeros().map(Arc::new), Ok)?;
        launch(self.gpu, &out)?;
        Ok(out.into())
    }
}

/// The only input of a step.
pub(super) fn only(inputs: Vec<Arc<GpuVector>>) -> Result<Arc<GpuVector>> {
    let [input] = <[_; 1]>::try_from(inputs)
        .map_err(|_| Error::Internal("the step needs one input".into()))?;
    Ok(input)
}
