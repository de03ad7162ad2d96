//! Requests, from their bytes to checked values.

use std::fmt::Debug;

use bytes::Bytes;
use capstan::{
    curve::{G1Affine, points::PointEncoding},
    error::InputError,
    ops::OperationProgram,
    program::STEPS_MAX,
    wire::{
        self,
        decode::{self, EncodedPoints, UploadContent},
        v1,
    },
};
use prost::Message;

use super::{SECRET, assert_harmless};
use crate::{
    driver::{MemoryBound, Target},
    rig::{messages, programs},
};

fn secret(bytes: usize) -> Vec<u8> {
    SECRET.bytes().cycle().take(bytes).collect()
}

/// Decodes a message twice; what it encodes is the same message.
fn message<M: Message + Default + PartialEq + Debug + 'static>(bytes: &[u8]) -> Option<M> {
    checked(wire::check_lists::<M>([bytes, &[]]))?;
    let message = M::decode(Bytes::copy_from_slice(bytes)).ok()?;
    let again = M::decode(Bytes::from(message.encode_to_vec()));
    assert_eq!(again.as_ref(), Ok(&message));
    Some(message)
}

/// A refusal names a field or says that an id is unknown.
fn checked<T>(decoded: Result<T, InputError>) -> Option<T> {
    let error = match decoded {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    match &error {
        InputError::Invalid { path, .. } => assert!(!path.to_string().is_empty()),
        InputError::NotFound => {}
    }
    assert_harmless(&error);
    None
}

fn check_vector(upload: v1::VectorUpload) {
    if let Some(upload) = checked(decode::vector_upload(upload)) {
        let bytes = upload.bytes().expect("checked");
        assert_eq!(bytes, upload.count * upload.encoding.width() as u64);
        assert!((1..=decode::STREAMS_MAX).contains(&upload.streams));
    }
}

fn check_msm(spec: Option<v1::MsmSpec>) {
    let Some(msm) = checked(decode::msm_spec(spec)) else { return };
    assert!((1..=decode::BATCH_MAX as usize).contains(&msm.batch));
    if let decode::BasesRef::Inline { encoding, data, count } = msm.bases {
        assert_eq!(data.len(), count * encoding.point_bytes(msm.group));
    }
}

fn check_ntt(spec: Option<v1::NttSpec>) {
    if let Some(ntt) = checked(decode::ntt_spec(spec)) {
        assert!((1..=decode::BATCH_MAX as usize).contains(&ntt.batch));
        assert!(ntt.row_length <= 1 << 32);
    }
}

fn check_program(program: v1::Program) {
    let name = decode::ProgramName::of(&program);
    assert_eq!(name.bytes, program.encoded_len());
    let Some(program) = checked(decode::program(program)) else { return };
    assert!((1..=STEPS_MAX).contains(&program.steps().len()));
    let again = OperationProgram::new(program.steps().to_vec());
    assert_eq!(again.as_ref(), Ok(&program));
}

/// A request, and what holds for it.
trait Request: Message + Default + PartialEq + Debug + 'static {
    fn check(self);
}

fn check<M: Request>(input: &[u8]) {
    if let Some(request) = message::<M>(input) {
        request.check();
    }
}

fn run<M: Request>(name: &'static str, messages: Vec<M>) {
    let (seeds, check) = (messages.iter().map(Message::encode_to_vec).collect(), check::<M>);
    Target { name, seeds, words: &[], check, cases: 5_000, memory: MESSAGES }.run();
}

/// Lists that are long are refused before they are decoded.
const MESSAGES: MemoryBound = MemoryBound { per_byte: 16, always: 512 << 10 };

const OF: v1::ScalarEncoding = v1::ScalarEncoding::Canonical;

fn vector() -> v1::VectorUpload {
    messages::new_vector(OF, 2)
}

fn msm_specs() -> Vec<v1::MsmSpec> {
    let (points, group) = (messages::points::<G1Affine>(2), messages::group::<G1Affine>());
    let stored = messages::stored(&Bytes::from(secret(32)), 1, 2);
    vec![
        messages::spec(group, stored),
        messages::spec(group, messages::inline(&points)),
        messages::spec(group, messages::inline_bytes(PointEncoding::Compressed, secret(96))),
    ]
}

fn some_program() -> v1::Program {
    let id = Bytes::from(vec![7; 32]);
    programs::program([
        programs::input(1, 4),
        programs::input(1, 4),
        programs::ntt(0, 2),
        programs::pointwise(v1::PointwiseOperation::Multiply, &[1, 2]),
        programs::linear_combination(&[2, 3], &messages::random(2)),
        programs::powers(5.into(), Bytes::new(), 4),
        programs::constant(&messages::random(2)),
        programs::slice(3, 1, 2),
        programs::concat(&[6, 7]),
        programs::pad(7, 8),
        programs::evaluate(3, 5.into()),
        programs::prefix_product(3),
        programs::divide_by_linear(3, 9.into()),
        programs::divide_by_vanishing(9, 1, 3.into()),
        programs::msm::<G1Affine>(3, &id, 1),
        programs::poly_mul(&[3, 9], None),
        programs::poly_mul(&[3, 9], Some(v1::poly_mul_step::Reduction::Cyclic(5))),
        programs::poly_mul(&[9, 9], Some(v1::poly_mul_step::Reduction::Negacyclic(4))),
    ])
}

fn run_headers() -> Vec<v1::RunHeader> {
    let steps = || some_program().steps.into_iter().filter_map(|step| step.operation);
    let region = v1::RegionVector::default();
    let sources = [
        programs::new_upload(4),
        programs::inline_bytes(secret(128)),
        programs::stored(&messages::id(), 3),
        programs::in_region(region.clone()),
    ];
    let outputs = || {
        let kept = programs::keep(4, &messages::id());
        vec![programs::send(3), kept, programs::points(13), programs::to_region(5, region.clone())]
    };
    let call = |second: &v1::ProgramInput| {
        programs::call(steps(), vec![programs::new_upload(4), second.clone()], outputs())
    };
    sources.iter().map(call).chain([programs::word_call()]).collect()
}

impl Request for v1::MsmRequest {
    fn check(self) {
        check_msm(self.spec);
    }
}

#[test]
fn msm_request() {
    let scalars = || messages::scalars(OF, secret(64));
    let inline = msm_specs().into_iter().map(|spec| messages::msm(spec, scalars()));
    let stored = messages::msm_on(msm_specs().remove(0), &messages::id());
    run("msm_request", inline.chain([stored]).collect());
}

impl Request for v1::MsmStreamRequest {
    fn check(self) {
        if let Some(v1::msm_stream_request::Message::Header(header)) = self.message {
            check_msm(header.spec);
            checked(decode::streamed_vector("scalars", header.scalars, header.region_scalars));
        }
    }
}

#[test]
fn msm_stream_request() {
    let chunks = vec![messages::chunk(0, secret(64))];
    run("msm_stream_request", messages::msm_stream(msm_specs().remove(0), vector(), chunks));
}

impl Request for v1::NttRequest {
    fn check(self) {
        check_ntt(self.spec);
    }
}

#[test]
fn ntt_request() {
    let elements = messages::scalars(OF, secret(64));
    run("ntt_request", vec![messages::ntt(messages::ntt_spec(1), elements)]);
}

impl Request for v1::NttStreamRequest {
    fn check(self) {
        if let Some(v1::ntt_stream_request::Message::Header(header)) = self.message {
            check_ntt(header.spec);
            checked(decode::streamed_vector("input", header.input, header.region_input));
            if let Some(place) = header.region_output {
                checked(decode::region_place(place));
            }
        }
    }
}

#[test]
fn ntt_stream_request() {
    let chunks = vec![messages::chunk(0, secret(64))];
    run("ntt_stream_request", messages::ntt_stream(messages::ntt_spec(1), vector(), chunks));
}

impl Request for v1::RunRequest {
    fn check(self) {
        if let Some(v1::run_request::Message::Header(header)) = self.message {
            header.check();
        }
    }
}

#[test]
fn run_request() {
    let header = run_headers().remove(0);
    let mut all = programs::run(header, vec![programs::chunk(0, 0, secret(64))]);
    all.push(programs::written(1, 32, 64));
    run("run_request", all);
}

impl Request for v1::RunHeader {
    fn check(self) {
        let inputs = self.inputs.len();
        if let Some(run) = checked(decode::run_spec(self)) {
            assert_eq!(run.inputs.len(), inputs);
        }
    }
}

#[test]
fn run_header() {
    run("run_header", run_headers());
}

impl Request for v1::EstimateRequest {
    fn check(self) {
        checked(decode::estimate_spec(self));
    }
}

#[test]
fn set_residency_request() {
    let action = v1::ResidencyAction::Pin.into();
    let request = |devices| {
        let object_id = Bytes::from(secret(32));
        v1::SetResidencyRequest { object_id, action, devices }
    };
    run("set_residency_request", vec![request(vec![]), request(vec![0, 3, 70])]);
}

impl Request for v1::SetResidencyRequest {
    fn check(self) {
        if let Some(spec) = checked(decode::residency_spec(self)) {
            let mut devices = spec.devices.clone();
            devices.sort_unstable();
            devices.dedup();
            assert!(devices.len() == spec.devices.len() && devices.len() <= 64);
        }
    }
}

#[test]
fn list_request() {
    let page = |page_size, page_token: Vec<u8>| {
        let group = Some(v1::Group::G2.into());
        v1::ListRequest { group, page_size, page_token: page_token.into() }
    };
    run("list_request", vec![page(0, vec![]), page(7, secret(40)), page(u32::MAX, secret(39))]);
}

impl Request for v1::ListRequest {
    fn check(self) {
        if let Some(spec) = checked(decode::list_spec(&self)) {
            let token = spec.after.map_or_else(Vec::new, decode::ListPosition::to_token);
            assert_eq!(token, self.page_token);
            assert_ne!(spec.objects_max, Some(0));
        }
    }
}

#[test]
fn estimate_request() {
    let program = programs::inline_program(some_program());
    let verify = v1::Verify::Full as i32;
    run("estimate_request", vec![v1::EstimateRequest { program, outputs: vec![3, 5], verify }]);
}

impl Request for v1::PutProgramRequest {
    fn check(self) {
        if let Some(program) = self.program {
            check_program(program);
        }
    }
}

#[test]
fn put_program_request() {
    let of_words = programs::program(programs::word_steps());
    let request = |program| v1::PutProgramRequest { program: Some(program) };
    run("put_program_request", [some_program(), of_words].map(request).into());
}

fn check_object(header: &decode::ObjectUploadHeader) {
    let payload_bytes = match header.content {
        UploadContent::Bases(EncodedPoints { group, encoding, count }) => {
            count * encoding.point_bytes(group) as u64
        }
        UploadContent::Matrix(shape) => {
            assert!(shape.rows > 0 && shape.columns > 0, "a matrix without elements");
            u64::from(shape.rows) * 4
                + u64::from(shape.terms) * 8
                + u64::from(shape.coefficients) * 32
        }
    };
    assert_eq!(header.content.payload_bytes().expect("checked"), payload_bytes);
    assert!(header.content.object_bytes().is_ok(), "an object that no memory holds");
    assert!(header.label.len() <= 255, "a label that no file holds");
}

impl Request for v1::PutRequest {
    fn check(self) {
        match self.message {
            Some(v1::put_request::Message::Vector(upload)) => check_vector(upload),
            Some(v1::put_request::Message::Bases(upload)) => {
                if let Some(header) = checked(decode::bases_upload(upload)) {
                    check_object(&header);
                }
            }
            Some(v1::put_request::Message::Matrix(upload)) => {
                if let Some(header) = checked(decode::matrix_upload(upload)) {
                    check_object(&header);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn put_request() {
    let mut all = messages::put_points(&messages::points::<G1Affine>(2));
    all.extend(messages::put_vector(vector(), vec![messages::chunk(3, secret(64))]));
    let matrix = messages::matrix(&messages::some_matrix());
    all.extend(messages::put_matrix(matrix, vec![messages::chunk(9, vec![7; 5])]));
    run("put_request", all);
}

impl Request for v1::GetRequest {
    fn check(self) {
        if let Some(encoding) = self.encoding {
            checked(decode::point_encoding("encoding", encoding));
        }
        match self.id {
            Some(v1::get_request::Id::ObjectId(id)) => drop(checked(decode::object_id(&id))),
            Some(v1::get_request::Id::UploadId(id)) => drop(checked(decode::upload_id(&id))),
            None => {}
        }
    }
}

#[test]
fn get_request() {
    let id = Some(v1::get_request::Id::ObjectId(secret(32).into()));
    run("get_request", vec![v1::GetRequest { id, encoding: Some(1), ..Default::default() }]);
}

impl Request for v1::StatRequest {
    fn check(self) {
        if let Some(v1::stat_request::Id::Payload(payload)) = self.id {
            checked(decode::payload_id(&payload));
        }
    }
}

#[test]
fn stat_request() {
    let payload = v1::Payload { hash: secret(32).into(), encoding: 1 };
    let id = Some(v1::stat_request::Id::Payload(payload));
    run("stat_request", vec![v1::StatRequest { id }]);
}
