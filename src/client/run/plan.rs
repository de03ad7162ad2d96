//! Checks a run before anything is sent.

use bytes::Bytes;
use capstan_math::{
    builder::BuiltProgram,
    curve::{
        G1Affine, G2Affine, Group,
        points::{MsmSums, SumEncoding, decode_sums},
        scalars::ScalarEncoding,
    },
    error::FieldProblem,
    field::FieldId,
    program::{
        self, InputSpec, Liveness, OutputKind, OutputSpec, PointsShape, ResultMemory, ValueId,
        VectorShape,
    },
    runner::{self, EarlyListener, GivenInput},
};

use super::request::{Delivery, GivenElements, InputElements, ProgramRun, WantedOutput};
use crate::{
    UploadKey, VectorInfo, convert,
    error::{ClientError, Result},
    options::{ElementSource, UploadedScalars, VectorInput},
    transfer::payload::OutgoingBytes,
    wire::v1::{self, program_input::Source, program_output},
};

/// Vectors of at least this size are kept on the server and downloaded over several connections.
const STRIPED_BYTES: u64 = 8 << 20;

/// Encoding of points: the cheapest for the server.
const POINTS: SumEncoding = SumEncoding::Projective;

/// A run whose inputs and outputs suit its program.
pub(super) struct RunPlan<'a> {
    pub program: BuiltProgram,
    /// One for each input of the program, in order.
    pub inputs: Vec<VectorInput<'a>>,
    pub outputs: Vec<PlannedOutput>,
    early: &'a [EarlyListener<'a>],
}

#[derive(Clone, Copy)]
pub(super) struct PlannedOutput {
    pub value: ValueId,
    /// The field of a vector.
    pub field: FieldId,
    /// The encoding of a vector, in messages.
    encoding: i32,
    pub delivery: PlannedDelivery,
    /// Whether points are wanted as soon as they are known.
    pub is_early: bool,
}

#[derive(Clone, Copy)]
pub(super) enum PlannedDelivery {
    Send {
        elements: u64,
    },
    Keep(VectorInfo),
    /// Kept, downloaded over several connections, and released.
    Download(VectorInfo),
    Points(PointsShape),
    /// Written to the beginning of the region with this id.
    Region([u8; 16]),
}

impl<'a> RunPlan<'a> {
    /// Errors: `InvalidProgram` for inputs or outputs that do not suit the program.
    pub fn new(run: &'a ProgramRun<'_>, has_several_connections: bool) -> Result<Self> {
        let program = run.program.program();
        let tags = run.outputs.iter().map(|output| output.program);
        let inputs = runner::check_given(&run.program, &run.inputs, tags)?;
        let wanted: Vec<_> = run.outputs.iter().map(output_spec).collect();
        let values: Vec<_> = wanted.iter().map(|output| output.value).collect();
        let liveness = Liveness::new(program, &values, ResultMemory::Reused)?;
        let inputs = inputs.into_iter().map(|given| plan_input(run, given));
        let inputs: Vec<_> = inputs.collect::<Result<_>>()?;
        let given: Vec<_> = inputs.iter().map(|input| input.spec).collect();
        program::check_call(program, &liveness, &given, &wanted)?;
        let outputs = run.outputs.iter();
        let outputs = outputs.map(|output| plan_output(run, output, has_several_connections));
        let mut outputs = outputs.collect::<Result<Vec<_>>>()?;
        run.early.iter().for_each(|listener| outputs[listener.output].is_early = true);
        Ok(Self { program: run.program.clone(), inputs, outputs, early: &run.early })
    }

    /// Gives the points of an output that arrive early to their listeners.
    ///
    /// Errors: `InvalidResponse` if they are malformed, or if nothing wants them.
    pub fn receive_early(&self, output: u32, points: &[u8]) -> Result<()> {
        let number = output as usize;
        let output = self.outputs.get(number).filter(|output| output.is_early);
        let Some(PlannedOutput { delivery: PlannedDelivery::Points(shape), .. }) = output else {
            return Err(ClientError::invalid_response("no such points were requested"));
        };
        let points = decode_points(*shape, points)?;
        let listeners = self.early.iter().filter(|listener| listener.output == number);
        listeners.for_each(|listener| (listener.call)(points.clone()));
        Ok(())
    }

    /// Bytes of the inputs that are sent.
    pub fn sent_bytes(&self) -> u64 {
        self.inputs.iter().filter_map(VectorInput::payload).map(OutgoingBytes::len).sum()
    }
}

impl PlannedOutput {
    /// Bytes of a vector that is received.
    pub fn received_bytes(&self) -> u64 {
        let elements = match self.delivery {
            PlannedDelivery::Send { elements } => elements,
            PlannedDelivery::Download(vector) => vector.count,
            PlannedDelivery::Keep(_) | PlannedDelivery::Points(_) | PlannedDelivery::Region(_) => 0,
        };
        elements * self.field.element_bytes()
    }

    /// A vector is written to `place`, if that is given.
    pub fn message(self, place: Option<v1::RegionPlace>) -> v1::ProgramOutput {
        use program_output::Delivery as Message;
        let encoding = self.encoding;
        let in_region = |place| Message::Region(region_vector(place, encoding));
        let planned = || match self.delivery {
            PlannedDelivery::Send { .. } => Message::Send(v1::SendVector { encoding }),
            PlannedDelivery::Keep(vector) | PlannedDelivery::Download(vector) => {
                Message::Keep(v1::KeepVector { upload_id: vector.id.to_bytes(), encoding })
            }
            PlannedDelivery::Points(_) => {
                let encoding = v1::ResultEncoding::from(POINTS).into();
                Message::Points(v1::SendPoints { encoding, early: self.is_early })
            }
            PlannedDelivery::Region(id) => {
                let region_id = Bytes::copy_from_slice(&id);
                in_region(v1::RegionPlace { region_id, offset: 0 })
            }
        };
        let delivery = Some(place.map_or_else(planned, in_region));
        v1::ProgramOutput { value: self.value.0, delivery }
    }
}

fn region_vector(place: v1::RegionPlace, encoding: i32) -> v1::RegionVector {
    let v1::RegionPlace { region_id, offset } = place;
    v1::RegionVector { region_id, offset, encoding }
}

/// The elements that are given for an input.
fn plan_input<'a>(
    run: &'a ProgramRun<'_>,
    given: &'a GivenInput<GivenElements<'_>>,
) -> Result<VectorInput<'a>> {
    let InputElements { elements, offset, reduce } = match &given.input {
        GivenElements::Elements(elements) => elements.clone(),
        GivenElements::OfVector(number) => (&run.vectors[*number]).into(),
    };
    match elements.into_payload() {
        Ok(payload) => {
            let input = VectorInput::local("inputs", payload, reduce)?;
            Ok(match &input.source {
                ElementSource::Local(OutgoingBytes::Region { region, .. }) => {
                    let encoding = convert::scalar_encoding(input.spec.encoding)?;
                    let source = Source::Region(region_vector(region.start(), encoding));
                    VectorInput { source: ElementSource::Named(source), ..input }
                }
                _ => input,
            })
        }
        Err(UploadedScalars { id, first }) => {
            // The server checks the length and the encoding.
            let encoding = ScalarEncoding::typed(field_of(run, given.value));
            let spec = InputSpec { encoding, count: elements_of(run, given.value), reduce };
            Ok(VectorInput::stored(spec, id, offset.saturating_add(first.unwrap_or(0))))
        }
    }
}

fn plan_output(
    run: &ProgramRun<'_>,
    output: &WantedOutput,
    has_several_connections: bool,
) -> Result<PlannedOutput> {
    let count = elements_of(run, output.value);
    let region = match output.delivery {
        Delivery::ToVector(number) => {
            let vector = &run.vectors[number];
            if !vector.suits(field_of(run, output.value)) {
                return Err(ClientError::input("vector", FieldProblem::OtherField));
            }
            if vector.len() as u64 != count {
                return Err(ClientError::length("vector", count, vector.len() as u64));
            }
            vector.region_id()
        }
        _ => None,
    };
    let field = field_of(run, output.value);
    let encoding = ScalarEncoding::typed(field);
    let keep = || Ok::<_, ClientError>(VectorInfo { id: UploadKey::random()?, encoding, count });
    let is_large = count * encoding.width() as u64 >= STRIPED_BYTES;
    let delivery = match output.delivery {
        Delivery::Send | Delivery::ToVector(_) => match region {
            Some(id) => PlannedDelivery::Region(id),
            None if is_large && has_several_connections => PlannedDelivery::Download(keep()?),
            None => PlannedDelivery::Send { elements: count },
        },
        Delivery::Keep => PlannedDelivery::Keep(keep()?),
        Delivery::Points(shape) => PlannedDelivery::Points(shape),
    };
    let encoding = convert::scalar_encoding(encoding)?;
    Ok(PlannedOutput { value: output.value, field, encoding, delivery, is_early: false })
}

fn output_spec(output: &WantedOutput) -> OutputSpec {
    let kind = match output.delivery {
        Delivery::Send | Delivery::Keep | Delivery::ToVector(_) => OutputKind::Elements,
        Delivery::Points(_) => OutputKind::Points,
    };
    OutputSpec { value: output.value, kind }
}

/// The field of a vector; Fr for points.
fn field_of(run: &ProgramRun<'_>, value: ValueId) -> FieldId {
    let shape = run.program.program().shape(value);
    shape.map_or(FieldId::Bls12381Fr, VectorShape::field)
}

/// Elements of all rows of a vector; 0 for points.
fn elements_of(run: &ProgramRun<'_>, value: ValueId) -> u64 {
    run.program.program().shape(value).map_or(0, VectorShape::elements)
}

/// Decodes the points of an MSM, and checks them.
pub(super) fn decode_points(shape: PointsShape, bytes: &[u8]) -> Result<MsmSums> {
    let sums = match shape.group {
        Group::G1 => decode_sums::<G1Affine>(POINTS, bytes).map(MsmSums::G1),
        Group::G2 => decode_sums::<G2Affine>(POINTS, bytes).map(MsmSums::G2),
    };
    let sums = sums.map_err(|bad| {
        ClientError::invalid_response(format!("point {} is {}", bad.index, bad.problem))
    })?;
    let is_whole = sums.len() == shape.count as usize;
    is_whole.then_some(sums).ok_or(ClientError::invalid_response("wrong number of points"))
}
