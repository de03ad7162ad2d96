//! Decodes the inputs and outputs of a call of a program.

use std::collections::HashSet;

use bytes::Bytes;
use capstan_math::{
    curve::{points::SumEncoding, scalars::ScalarEncoding},
    error::{FieldProblem, InputError, Result},
    operation::OperationProgram,
    program::{INPUTS_MAX, OUTPUTS_MAX, ValueId, Verification},
};

use super::{
    ProgramId, RegionVector, StreamedVector, UploadId, decode_enum, decode_id, element_count,
    element_encoding, new_upload_id,
    program::program,
    regions::{read_vector, region_upload, written_vector},
    required, scalar_encoding, upload_id, vector_upload, verify,
};
use crate::{
    parts::values,
    v1::{
        self, msm_request::Scalars, ntt_request::Input, program_input::Source,
        program_output::Delivery, program_ref::Program,
    },
};

pub enum ProgramRef {
    Inline(OperationProgram),
    Stored(ProgramId),
}

pub struct RunSpec {
    pub program: ProgramRef,
    pub inputs: Vec<RunInput>,
    pub outputs: Vec<RunOutput>,
    pub verify: Verification,
}

pub struct RunInput {
    pub source: InputSource,
    /// Reduce elements modulo r.
    pub reduce: bool,
}

pub enum InputSource {
    Inline {
        encoding: ScalarEncoding,
        count: u64,
        data: Bytes,
    },
    /// A vector or an upload in progress, from element `offset` on; all of it without an offset.
    Stored {
        id: UploadId,
        offset: Option<u64>,
    },
    Streamed(StreamedVector),
    /// The elements are in the region.
    Region(RegionVector),
}

pub struct RunOutput {
    pub value: ValueId,
    pub delivery: OutputDelivery,
}

pub enum OutputDelivery {
    Send(ScalarEncoding),
    Keep {
        id: UploadId,
        encoding: ScalarEncoding,
    },
    Points {
        encoding: SumEncoding,
        /// Whether the points are sent as soon as they are known.
        is_early: bool,
    },
    Region(RegionVector),
}

impl RunOutput {
    /// Whether its points are sent as soon as they are known.
    pub fn is_early(&self) -> bool {
        matches!(self.delivery, OutputDelivery::Points { is_early: true, .. })
    }
}

pub struct EstimateSpec {
    pub program: ProgramRef,
    /// Empty: all values that no step reads.
    pub outputs: Vec<ValueId>,
    pub verify: Verification,
}

/// Errors: `Invalid` for the first wrong field; `NotFound` for a malformed program id.
pub fn run_spec(header: v1::RunHeader) -> Result<RunSpec> {
    let spec = RunSpec {
        program: program_ref(header.program)?,
        inputs: list("inputs", INPUTS_MAX, header.inputs, input)?,
        outputs: list("outputs", OUTPUTS_MAX, header.outputs, output)?,
        verify: verify("verify", header.verify)?,
    };
    spec.check_uploads()?;
    Ok(spec)
}

/// Errors: `Invalid` for the first field that is wrong.
pub fn estimate_spec(request: v1::EstimateRequest) -> Result<EstimateSpec> {
    let count = request.outputs.len();
    if count > OUTPUTS_MAX {
        return Err(InputError::field("outputs", FieldProblem::too_long(OUTPUTS_MAX, count)));
    }
    Ok(EstimateSpec {
        program: program_ref(request.program)?,
        outputs: values(&request.outputs),
        verify: verify("verify", request.verify)?,
    })
}

impl RunSpec {
    /// No upload can have two inputs, because each input is one of its streams.
    fn check_uploads(&self) -> Result<()> {
        let mut uploads = HashSet::new();
        for (index, input) in self.inputs.iter().enumerate() {
            if let InputSource::Streamed(StreamedVector::Upload(upload)) = &input.source
                && !uploads.insert(upload.id)
            {
                let repeated = InputError::field("upload_id", FieldProblem::OutOfRange);
                return Err(repeated.of_item("inputs", index, "upload"));
            }
        }
        Ok(())
    }

    /// Whether no vector to keep has the id of an input, which a retry would read, or of another
    /// vector to keep.
    pub fn has_free_ids(&self) -> bool {
        let inputs = self.inputs.iter().filter_map(|input| match &input.source {
            InputSource::Streamed(StreamedVector::Upload(upload)) => Some(upload.id),
            InputSource::Stored { id, .. } => Some(*id),
            InputSource::Inline { .. }
            | InputSource::Region(_)
            | InputSource::Streamed(StreamedVector::Region(_)) => None,
        });
        let mut taken: HashSet<_> = inputs.collect();
        self.outputs.iter().all(|output| match output.delivery {
            OutputDelivery::Keep { id, .. } => taken.insert(id),
            OutputDelivery::Send(_) | OutputDelivery::Points { .. } | OutputDelivery::Region(_) => {
                true
            }
        })
    }
}

fn list<W, T>(
    name: &'static str,
    max: usize,
    items: Vec<W>,
    decode: fn(usize, W) -> Result<T>,
) -> Result<Vec<T>> {
    if items.len() > max {
        return Err(InputError::field(name, FieldProblem::too_long(max, items.len())));
    }
    items.into_iter().enumerate().map(|(index, item)| decode(index, item)).collect()
}

fn program_ref(reference: Option<v1::ProgramRef>) -> Result<ProgramRef> {
    let reference = reference.and_then(|reference| reference.program);
    Ok(match required("program", reference)? {
        Program::Inline(inline) => ProgramRef::Inline(program(inline)?),
        Program::ProgramId(id) => ProgramRef::Stored(ProgramId(decode_id(&id)?)),
    })
}

fn input(index: usize, input: v1::ProgramInput) -> Result<RunInput> {
    let missing = InputError::item("inputs", index, "source", FieldProblem::Missing);
    let of = |member| move |error: InputError| error.of_item("inputs", index, member);
    let source = match input.source.ok_or(missing)? {
        Source::Inline(inline) => {
            inline_vector(inline, ["encoding", "data"]).map_err(of("inline"))?
        }
        Source::Stored(stored) => {
            let unknown = |_| InputError::field("upload_id", FieldProblem::UnknownId);
            let id = decode_id(&stored.upload_id).map_err(unknown).map_err(of("stored"))?;
            InputSource::Stored { id: UploadId(id), offset: Some(stored.offset) }
        }
        Source::Upload(upload) => {
            let upload = vector_upload(upload).map_err(of("upload"))?;
            InputSource::Streamed(StreamedVector::Upload(upload))
        }
        Source::Region(region) => InputSource::Region(read_vector(region).map_err(of("region"))?),
        Source::RegionUpload(upload) => {
            let upload = region_upload(upload).map_err(of("region_upload"))?;
            InputSource::Streamed(StreamedVector::Region(upload))
        }
    };
    Ok(RunInput { source, reduce: input.reduce })
}

/// `fields` are the names of its encoding and its data.
fn inline_vector(inline: v1::InlineVector, fields: [&'static str; 2]) -> Result<InputSource> {
    let encoding = scalar_encoding(fields[0], inline.encoding)?;
    let count = element_count(fields[1], inline.data.len(), encoding.width())? as u64;
    Ok(InputSource::Inline { encoding, count, data: inline.data })
}

impl InputSource {
    /// The scalars of an MSM.
    ///
    /// Errors: `Invalid`; `NotFound` for a malformed id.
    pub fn of_msm(scalars: Option<Scalars>) -> Result<Self> {
        Self::of_single(match required("scalars", scalars)? {
            Scalars::Inline(inline) => Input::Inline(inline),
            Scalars::UploadId(id) => Input::UploadId(id),
            Scalars::Stored(part) => Input::Stored(part),
        })
    }

    /// The rows of an NTT.
    ///
    /// Errors: those of [`Self::of_msm`].
    pub fn of_ntt(input: Option<Input>) -> Result<Self> {
        Self::of_single(required("input", input)?)
    }

    fn of_single(input: Input) -> Result<Self> {
        Ok(match input {
            Input::Inline(inline) => inline_vector(inline, ["inline.encoding", "inline.data"])?,
            Input::UploadId(id) => Self::Stored { id: upload_id(&id)?, offset: None },
            Input::Stored(part) => {
                Self::Stored { id: upload_id(&part.upload_id)?, offset: Some(part.offset) }
            }
        })
    }
}

fn output(index: usize, output: v1::ProgramOutput) -> Result<RunOutput> {
    let missing = InputError::item("outputs", index, "delivery", FieldProblem::Missing);
    let of = |member| move |error: InputError| error.of_item("outputs", index, member);
    let delivery = match output.delivery.ok_or(missing)? {
        Delivery::Send(send) => {
            let encoding = element_encoding("encoding", send.encoding);
            OutputDelivery::Send(encoding.map_err(of("send"))?)
        }
        Delivery::Keep(keep) => {
            let encoding = element_encoding("encoding", keep.encoding).map_err(of("keep"))?;
            let id = new_upload_id(&keep.upload_id).map_err(of("keep"))?;
            OutputDelivery::Keep { id, encoding }
        }
        Delivery::Points(points) => {
            let encoding = decode_enum::<v1::ResultEncoding, _>("encoding", points.encoding);
            let encoding = encoding.map_err(of("points"))?;
            OutputDelivery::Points { encoding, is_early: points.early }
        }
        Delivery::Region(region) => {
            OutputDelivery::Region(written_vector(region).map_err(of("region"))?)
        }
    };
    Ok(RunOutput { value: ValueId(output.value), delivery })
}
