//! What calls name, found: programs, bases, matrices and inputs.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::grpc::{
    calls::call::CallContext, objects::regions::find_slice,
    requests::streamed_uploads::StreamedUploads,
};
use crate::{
    buffer::{RegionSlice, UploadBuffer},
    error::{Error, FieldProblem, Result},
    jobs::{ComputeHost, JobBases, ProgramJobInput},
    ops::{Operation, OperationProgram},
    program::{ExternalOperand, InputSpec, StepProblem, VectorShape},
    sparse::SparseMatrix,
    store::UploadUseGuard,
    verify::Verification,
    wire::decode::{
        InputSource, ObjectId, ProgramRef, RegionUploadHeader, RunInput, RunOutput, RunSpec,
        StreamedVector, UploadId, VectorUploadHeader,
    },
};

/// The call that runs a program. Those of MSMs and NTTs run one of a single step, and their errors
/// name their own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    Run,
    Msm,
    Ntt,
    /// An NTT whose rows are sent in one message.
    NttInMessage,
}

/// A call of a program, and all that it names.
pub struct FoundCall {
    pub kind: CallKind,
    pub program: Arc<OperationProgram>,
    pub bases: Vec<JobBases>,
    pub matrices: Vec<SparseMatrix>,
    pub inputs: Vec<FoundInput>,
    pub outputs: Vec<RunOutput>,
    pub verify: Verification,
}

pub struct FoundInput {
    pub spec: InputSpec,
    pub source: FoundSource,
}

pub enum FoundSource {
    Inline(Bytes),
    /// The elements of a vector from element `offset` on.
    Stored {
        upload: UploadUseGuard,
        offset: u64,
    },
    /// Received while the call computes.
    Upload(VectorUploadHeader),
    Region {
        slice: RegionSlice,
        /// Whether the client writes the elements while the call computes.
        is_awaited: bool,
        /// Whether the job reads a copy.
        is_copied: bool,
    },
}

/// An input of a job, whose memory is admitted.
pub struct OpenedInput {
    pub job: ProgramJobInput,
    /// Its index among the call's uploads.
    pub upload: Option<usize>,
    pub in_use: Option<UploadUseGuard>,
}

impl CallKind {
    /// The name of the call in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Msm => "msm",
            Self::Ntt | Self::NttInMessage => "ntt",
        }
    }

    /// The call's field for its only input; `None` if errors name the step of the input.
    pub const fn input_field(self) -> Option<&'static str> {
        match self {
            Self::Run => None,
            Self::Msm => Some("scalars"),
            Self::Ntt | Self::NttInMessage => Some("input"),
        }
    }
}

impl FoundCall {
    /// What a Run call names.
    ///
    /// Errors: `NotFound` for the program; `Invalid` for bases or a matrix that are unknown or have
    /// another shape, and if a vector is unknown or too short; `Mismatch` for an upload of
    /// bases; `Loading`.
    pub fn of_run(call: &CallContext, spec: RunSpec) -> Result<Self> {
        let RunSpec { program, inputs, outputs, verify } = spec;
        let program = find_program(call, program)?;
        let bases = find_bases(call, &program)?;
        let matrices = find_matrices(call, &program)?;
        let counts = program.operands(ExternalOperand::Input);
        let counts = counts.map(|value| program.shape(value).map_or(0, VectorShape::elements));
        let counts: Vec<_> = counts.collect();
        let inputs = inputs.into_iter().enumerate().map(|(index, RunInput { source, reduce })| {
            // A call with more inputs than the program is refused later.
            let count = counts.get(index).copied().unwrap_or(0);
            let member = match &source {
                InputSource::Inline { .. } => "inline",
                InputSource::Streamed(_) => "region_upload",
                InputSource::Stored { .. } => "stored",
                InputSource::Region(_) => "region",
            };
            let found = FoundInput::find(call, CallKind::Run, source, count, reduce);
            found.map_err(|error| error.of_item("inputs", index, member))
        });
        let inputs = inputs.collect::<Result<_>>()?;
        let kind = CallKind::Run;
        Ok(Self { kind, program, bases, matrices, inputs, outputs, verify })
    }

    /// Bytes that the job takes for bases of the request.
    pub fn bases_bytes(&self) -> u64 {
        self.bases.iter().map(JobBases::bytes).sum()
    }

    /// The modelled time to check bases of the request.
    pub fn check_time(&self, host: &ComputeHost) -> Duration {
        self.bases.iter().map(|bases| bases.check_time(host)).sum()
    }
}

impl FoundInput {
    /// The `count` elements of a source. Those of a message may be more or fewer.
    ///
    /// Errors: `Invalid` for an unknown or too short vector or region; `NotFound` for an unknown
    /// vector of a call of one step; `Mismatch` for an upload of bases; `LocalOnly`.
    pub fn find(
        call: &CallContext,
        kind: CallKind,
        source: InputSource,
        count: u64,
        reduce: bool,
    ) -> Result<Self> {
        let in_region = |vector, count, is_awaited| {
            let slice = find_slice(call, vector, count)?;
            Ok::<_, Error>(FoundSource::Region { slice, is_awaited, is_copied: false })
        };
        let (encoding, count, source) = match source {
            InputSource::Inline { encoding, count, data } => {
                (encoding, count, FoundSource::Inline(data))
            }
            InputSource::Stored { id, offset } => {
                return Self::find_stored(call, kind, id, offset, count, reduce);
            }
            InputSource::Streamed(StreamedVector::Upload(vector)) => {
                (vector.encoding, vector.count, FoundSource::Upload(vector))
            }
            InputSource::Streamed(StreamedVector::Region(RegionUploadHeader { vector, count })) => {
                (vector.encoding, count, in_region(vector, count, true)?)
            }
            InputSource::Region(vector) => {
                (vector.encoding, count, in_region(vector, count, false)?)
            }
        };
        Ok(Self { spec: InputSpec { encoding, count, reduce }, source })
    }

    fn find_stored(
        call: &CallContext,
        kind: CallKind,
        id: UploadId,
        offset: Option<u64>,
        count: u64,
        reduce: bool,
    ) -> Result<Self> {
        let upload = call.state.uploads.get(call.tenant.id, id).map_err(|error| match kind {
            CallKind::Run => Error::field("upload_id", FieldProblem::UnknownId),
            _ => error,
        })?;
        let &VectorUploadHeader { encoding, count: held, .. } = upload.vector()?;
        call.audit_use("vector", &id.0);
        let [vector_field, offset_field] = match kind.input_field() {
            Some(field) => [field, "stored.offset"],
            None => ["upload_id", "offset"],
        };
        let is_held = if offset.is_some() { held >= count } else { held == count };
        if !is_held {
            let problem = FieldProblem::Length { expected: count, got: held };
            return Err(Error::field(vector_field, problem));
        }
        let offset = offset.unwrap_or(0);
        let max = held - count;
        if offset > max {
            return Err(Error::field(offset_field, FieldProblem::TooLarge { max }));
        }
        let spec = InputSpec { encoding, count, reduce };
        Ok(Self { spec, source: FoundSource::Stored { upload: upload.begin_use(), offset } })
    }

    /// Payload bytes that the input must be admitted for: none for an upload that exists.
    pub fn unadmitted_bytes(&self, call: &CallContext) -> Result<u64> {
        match &self.source {
            FoundSource::Inline(data) => Ok(data.len() as u64),
            FoundSource::Upload(vector) => call.unadmitted_payload_bytes(vector),
            FoundSource::Region { slice, is_copied: true, .. } => Ok(slice.size()),
            FoundSource::Region { .. } | FoundSource::Stored { .. } => Ok(0),
        }
    }

    /// The part of a region that holds the elements.
    pub fn slice(&self) -> Option<&RegionSlice> {
        match &self.source {
            FoundSource::Region { slice, .. } => Some(slice),
            _ => None,
        }
    }

    /// Admits its bytes, and opens its upload if it has one.
    ///
    /// Errors: `UploadConflict`, `Exhausted`, `Draining`.
    pub fn open(self, call: &CallContext, uploads: &mut StreamedUploads) -> Result<OpenedInput> {
        let Self { spec, source } = self;
        let pool = &call.state.inputs;
        let before = uploads.count();
        let mut first = 0;
        let mut copy = None;
        let mut in_use = None;
        let payload = match source {
            FoundSource::Inline(data) => {
                let permit = call.admit(data.len() as u64, 0)?;
                Arc::new(UploadBuffer::from_bytes(pool, &data, permit)?)
            }
            FoundSource::Stored { upload, offset } => {
                first = offset;
                let payload = upload.upload().payload.clone();
                in_use = Some(upload);
                payload
            }
            FoundSource::Upload(vector) => uploads.open(call, vector)?,
            FoundSource::Region { slice, is_awaited, is_copied } => {
                if is_copied {
                    let permit = call.admit(slice.size(), 0)?;
                    copy = Some(Arc::new(UploadBuffer::new(pool, slice.size(), permit)));
                }
                match is_awaited {
                    true => uploads.open_in_region(call, spec, slice)?,
                    false => Arc::new(UploadBuffer::in_region(pool, slice)),
                }
            }
        };
        let upload = (uploads.count() > before).then_some(before);
        let job = ProgramJobInput { payload, copy, spec, first };
        Ok(OpenedInput { job, upload, in_use })
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
/// Errors: `Invalid` if they are unknown, too few, or of another group; `Loading`.
fn find_bases(call: &CallContext, program: &OperationProgram) -> Result<Vec<JobBases>> {
    let steps = program.operands(ExternalOperand::Bases).map(|value| {
        let Operation::Msm(step) = &program.steps()[value.index()] else {
            return Err(Error::internal("a step other than an MSM uses bases"));
        };
        let refused = |problem| Error::from(program.step_error(value, problem));
        let unknown = |error| match error {
            Error::NOT_FOUND => refused(StepProblem::field("object_id", FieldProblem::UnknownId)),
            other => other,
        };
        let id = ObjectId(step.object_id);
        let bases = call.state.objects.bases(call.tenant.id, id).map_err(unknown)?;
        call.audit_use("bases", &id.0);
        let length = program.shape(step.input).map_or(0, VectorShape::length);
        step.bases(&bases, length).map(JobBases::Checked).map_err(refused)
    });
    steps.collect()
}

/// The matrix of each step that uses one.
///
/// Errors: `Invalid` if it is unknown, or has another shape than the step states; `Loading`.
fn find_matrices(call: &CallContext, program: &OperationProgram) -> Result<Vec<SparseMatrix>> {
    let steps = program.operands(ExternalOperand::Matrix).map(|value| {
        let Operation::SparseProduct(step) = &program.steps()[value.index()] else {
            return Err(Error::internal("a step other than a sparse product uses a matrix"));
        };
        let refused = |problem| Error::from(program.step_error(value, problem));
        let id = ObjectId(step.object_id);
        let matrix =
            call.state.objects.matrix(call.tenant.id, id).map_err(|error| match error {
                Error::NOT_FOUND => {
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
