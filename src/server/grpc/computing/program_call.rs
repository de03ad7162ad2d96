//! Finds what a call of a program names: the program, its bases, its inputs.

use std::sync::Arc;

use bytes::Bytes;

use crate::grpc::{
    calls::call::CallContext,
    objects::regions::find_slice,
    requests::streamed_uploads::{FoundRegion, FoundVector},
};
use crate::{
    curve::points::Bases,
    error::{Error, FieldProblem, Result},
    ops::{Operation, OperationProgram},
    program::{ExternalOperand, InputSpec, StepProblem, VectorShape},
    sparse::SparseMatrix,
    store::UploadUseGuard,
    wire::decode::{InputSource, ObjectId, ProgramRef, RunInput, UploadId, VectorUploadHeader},
};

pub struct FoundInput {
    pub source: FoundSource,
    pub reduce: bool,
}

pub enum FoundSource {
    Inline {
        spec: InputSpec,
        data: Bytes,
    },
    /// The elements of a vector from element `offset` on.
    Stored {
        spec: InputSpec,
        upload: UploadUseGuard,
        offset: u64,
    },
    Streamed(FoundVector),
    Region(FoundRegion),
}

impl FoundInput {
    pub fn spec(&self) -> InputSpec {
        match &self.source {
            FoundSource::Inline { spec, .. } | FoundSource::Stored { spec, .. } => *spec,
            FoundSource::Region(region) => region.spec,
            FoundSource::Streamed(vector) => vector.spec(),
        }
    }

    /// Payload bytes that the input must be admitted for.
    pub fn unadmitted_bytes(&self, call: &CallContext) -> Result<u64> {
        match &self.source {
            FoundSource::Inline { data, .. } => Ok(data.len() as u64),
            FoundSource::Stored { .. } => Ok(0),
            FoundSource::Region(region) => Ok(region.unadmitted_bytes()),
            FoundSource::Streamed(vector) => vector.unadmitted_bytes(call),
        }
    }

    /// The region that holds the elements.
    pub fn region(&self) -> Option<&FoundRegion> {
        match &self.source {
            FoundSource::Region(region) | FoundSource::Streamed(FoundVector::Region(region)) => {
                Some(region)
            }
            _ => None,
        }
    }

    /// Like [`Self::region`].
    pub fn region_mut(&mut self) -> Option<&mut FoundRegion> {
        match &mut self.source {
            FoundSource::Region(region) | FoundSource::Streamed(FoundVector::Region(region)) => {
                Some(region)
            }
            _ => None,
        }
    }
}

/// Errors: `NotFound`.
pub fn find_program(call: &CallContext, program: ProgramRef) -> Result<Arc<OperationProgram>> {
    match program {
        ProgramRef::Inline(program) => Ok(Arc::new(program)),
        ProgramRef::Stored(id) => {
            let program = call.state.programs.get(call.tenant.id, id)?;
            call.audit_use("program", &id.0);
            Ok(program)
        }
    }
}

/// The bases of each MSM step.
///
/// Errors: `Step` if they are unknown, too few, or of another group; `Loading`.
pub fn find_bases(call: &CallContext, program: &OperationProgram) -> Result<Vec<Bases>> {
    let steps = program.operands(ExternalOperand::Bases).map(|value| {
        let Operation::Msm(step) = &program.steps()[value.index()] else {
            return Err(Error::Internal("a step other than an MSM uses bases".into()));
        };
        let refused = |problem| program.step_error(value, problem);
        let unknown = |error| match error {
            Error::NotFound => refused(StepProblem::field("object_id", FieldProblem::UnknownId)),
            other => other,
        };
        let id = ObjectId(step.object_id);
        let bases = call.state.objects.bases(call.tenant.id, id).map_err(unknown)?;
        call.audit_use("bases", &id.0);
        let length = program.shape(step.input).map_or(0, VectorShape::length);
        step.bases(&bases, length).map_err(refused)
    });
    steps.collect()
}

/// The matrix of each step that uses one.
///
/// Errors: `Step` if it is unknown, or has another shape than the step states; `Loading`.
pub fn find_matrices(call: &CallContext, program: &OperationProgram) -> Result<Vec<SparseMatrix>> {
    let steps = program.operands(ExternalOperand::Matrix).map(|value| {
        let Operation::SparseProduct(step) = &program.steps()[value.index()] else {
            return Err(Error::Internal("a step other than a sparse product uses a matrix".into()));
        };
        let refused = |problem| program.step_error(value, problem);
        let id = ObjectId(step.object_id);
        let matrix =
            call.state.objects.matrix(call.tenant.id, id).map_err(|error| match error {
                Error::NotFound => {
                    refused(StepProblem::field("object_id", FieldProblem::UnknownId))
                }
                Error::Mismatch { .. } => {
                    refused(StepProblem::field("object_id", FieldProblem::NotMatrix))
                }
                other => other,
            })?;
        call.audit_use("matrix", &id.0);
        let length = program.shape(step.input).map_or(0, VectorShape::length);
        step.check_matrix(matrix.shape(), length).map_err(refused)?;
        Ok(matrix)
    });
    steps.collect()
}

/// Errors: `Item` if a vector is unknown or too short; `Mismatch` for an upload of bases.
pub fn find_inputs(
    call: &CallContext,
    program: &OperationProgram,
    inputs: Vec<RunInput>,
) -> Result<Vec<FoundInput>> {
    let mut steps = program.operands(ExternalOperand::Input);
    let found = inputs.into_iter().enumerate().map(|(index, RunInput { source, reduce })| {
        let shape = steps.next().and_then(|value| program.shape(value));
        let count = shape.map_or(0, VectorShape::elements);
        let source = match source {
            InputSource::Inline { encoding, count, data } => {
                FoundSource::Inline { spec: InputSpec { encoding, count }, data }
            }
            InputSource::Streamed(vector) => {
                let found = FoundVector::find(call, vector);
                let of_item = |error: Error| error.of_item("inputs", index, "region_upload");
                FoundSource::Streamed(found.map_err(of_item)?)
            }
            InputSource::Stored { id, offset } => find_vector(call, id, offset, count)
                .map_err(|error| error.of_item("inputs", index, "stored"))?,
            InputSource::Region(region) => {
                let slice = find_slice(call, region, count);
                let slice = slice.map_err(|error| error.of_item("inputs", index, "region"))?;
                let spec = InputSpec { encoding: region.encoding, count };
                FoundSource::Region(FoundRegion { spec, slice, is_copied: false })
            }
        };
        Ok(FoundInput { source, reduce })
    });
    found.collect()
}

fn find_vector(call: &CallContext, id: UploadId, offset: u64, count: u64) -> Result<FoundSource> {
    let unknown = |_| Error::field("upload_id", FieldProblem::UnknownId);
    let upload = call.state.uploads.get(call.tenant.id, id).map_err(unknown)?;
    let &VectorUploadHeader { encoding, count: held, .. } = upload.vector()?;
    call.audit_use("vector", &id.0);
    let too_short = FieldProblem::Length { expected: count, got: held };
    let max = held.checked_sub(count).ok_or(Error::field("upload_id", too_short))?;
    if offset > max {
        return Err(Error::field("offset", FieldProblem::TooLarge { max }));
    }
    let spec = InputSpec { encoding, count };
    Ok(FoundSource::Stored { spec, upload: upload.begin_use(), offset })
}
