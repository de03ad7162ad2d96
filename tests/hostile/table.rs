//! Rows of the table, and the server that they are sent to.

use bytes::Bytes;
use capstan::{
    curve::{G1Affine, G2Affine, points::CurvePoint},
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

use crate::{
    daemon::{
        TEST_TIMEOUT, TestServer, UNREACHED_LIMIT, compute,
        faulty_engine::{FaultDial, faulty_engines},
        messages,
        programs::send_run,
        reason, retry_idle, store, until_idle,
    },
    resources::ResourceCheck,
};

/// A request to any method.
pub enum Call {
    Msm(v1::MsmRequest),
    MsmStream(Vec<v1::MsmStreamRequest>),
    Ntt(v1::NttRequest),
    NttStream(Vec<v1::NttStreamRequest>),
    Run(Vec<v1::RunRequest>),
    Estimate(v1::EstimateRequest),
    PutProgram(v1::PutProgramRequest),
    Put(Vec<v1::PutRequest>),
    Get(v1::GetRequest),
    Stat(v1::StatRequest),
    List(v1::ListRequest),
    Release(v1::ReleaseRequest),
    SetResidency(v1::SetResidencyRequest),
}

impl Call {
    pub fn msm(spec: v1::MsmSpec, scalars: v1::InlineVector) -> Self {
        Self::Msm(messages::msm(spec, scalars))
    }

    pub fn msm_stream(spec: v1::MsmSpec, vector: v1::VectorUpload, chunks: Vec<v1::Chunk>) -> Self {
        Self::MsmStream(messages::msm_stream(spec, vector, chunks))
    }

    pub fn ntt(spec: v1::NttSpec, input: v1::InlineVector) -> Self {
        Self::Ntt(messages::ntt(spec, input))
    }

    pub fn ntt_stream(spec: v1::NttSpec, vector: v1::VectorUpload, chunks: Vec<v1::Chunk>) -> Self {
        Self::NttStream(messages::ntt_stream(spec, vector, chunks))
    }

    pub fn put_vector(vector: v1::VectorUpload, chunks: Vec<v1::Chunk>) -> Self {
        Self::Put(messages::put_vector(vector, chunks))
    }

    pub fn put_bases(bases: v1::BasesUpload, chunks: Vec<v1::Chunk>) -> Self {
        Self::Put(messages::put_bases(bases, chunks))
    }

    /// Sends the request; returns the points, the elements, an id, or nothing.
    pub async fn send(self, channel: &Channel) -> Result<Bytes, Status> {
        let (mut compute, mut store) = (compute(channel), store(channel));
        let points = |result: Option<v1::MsmResult>| result.expect("a result").points;
        Ok(match self {
            Self::Msm(request) => points(compute.msm(request).await?.into_inner().result),
            Self::MsmStream(messages) => {
                let answer = compute.msm_stream(stream::iter(messages)).await?;
                points(answer.into_inner().result)
            }
            Self::Ntt(request) => match compute.ntt(request).await?.into_inner().output {
                Some(v1::ntt_response::Output::Rows(rows)) => rows.data,
                _ => Bytes::new(),
            },
            Self::NttStream(messages) => {
                use v1::ntt_stream_response::Message;
                let answers = compute.ntt_stream(stream::iter(messages)).await?;
                let (mut answers, mut all) = (answers.into_inner(), Vec::new());
                loop {
                    match answers.message().await?.expect("a result at the end").message {
                        Some(Message::Chunk(chunk)) => all.extend_from_slice(&chunk.data),
                        _ => break all.into(),
                    }
                }
            }
            Self::Run(messages) => {
                let answer = send_run(channel, messages).await?;
                let vectors = answer.vectors.into_values().flatten();
                vectors.chain(answer.result.points.into_iter().flatten()).collect()
            }
            Self::Estimate(request) => {
                compute.estimate(request).await?;
                Bytes::new()
            }
            Self::PutProgram(request) => store.put_program(request).await?.into_inner().program_id,
            Self::Put(messages) => {
                store.put(stream::iter(messages)).await?;
                Bytes::new()
            }
            Self::Get(request) => {
                let (mut answers, mut all) = (store.get(request).await?.into_inner(), Vec::new());
                while let Some(answer) = answers.message().await? {
                    all.extend_from_slice(&answer.chunk.expect("always a chunk").data);
                }
                all.into()
            }
            Self::Stat(request) => {
                store.stat(request).await?;
                Bytes::new()
            }
            Self::List(request) => {
                store.list(request).await?;
                Bytes::new()
            }
            Self::SetResidency(request) => {
                store.set_residency(request).await?;
                Bytes::new()
            }
            Self::Release(request) => {
                store.release(request).await?;
                Bytes::new()
            }
        })
    }
}

/// An expected refusal. An empty `field` means that none is named.
struct Refusal {
    code: Code,
    reason: &'static str,
    field: &'static str,
    index: Option<u64>,
}

/// A case of the table.
pub struct Row {
    name: String,
    call: Call,
    /// Success, with this result if it is given; or a refusal.
    expected: Result<Option<Bytes>, Refusal>,
}

impl Row {
    /// The element that the refusal must name.
    pub fn at(mut self, index: u64) -> Self {
        self.expected = self.expected.map_err(|refusal| Refusal { index: Some(index), ..refusal });
        self
    }

    /// The field that the refusal must name.
    pub fn naming(mut self, field: &'static str) -> Self {
        self.expected = self.expected.map_err(|refusal| Refusal { field, ..refusal });
        self
    }
}

/// A row that is refused with INVALID_ARGUMENT.
pub fn invalid(
    name: impl Into<String>,
    call: Call,
    reason: &'static str,
    field: &'static str,
) -> Row {
    let refusal = Refusal { code: Code::InvalidArgument, reason, field, index: None };
    Row { name: name.into(), call, expected: Err(refusal) }
}

/// A row that is refused with another code.
pub fn refused(name: impl Into<String>, call: Call, code: Code, reason: &'static str) -> Row {
    let refusal = Refusal { code, reason, field: "", index: None };
    Row { name: name.into(), call, expected: Err(refusal) }
}

/// An unusual row that must succeed.
pub fn good(name: impl Into<String>, call: Call, result: impl Into<Option<Bytes>>) -> Row {
    Row { name: name.into(), call, expected: Ok(result.into()) }
}

/// Limits small enough for the tables to reach, except timeouts: a busy machine would reach those
/// too.
pub fn settings() -> ServerSettings {
    ServerSettings {
        idle_timeout: UNREACHED_LIMIT,
        bytes_in_flight_max: 64 << 20,
        connection_bytes_in_flight_max: 32 << 20,
        ..ServerSettings::default()
    }
}

/// A server with some bases, and a connection to it.
pub struct World {
    /// Dropped first: a server waits for its connections when it ends.
    pub channel: Channel,
    pub daemon: TestServer,
    pub dial: FaultDial,
    pub g1: Vec<G1Affine>,
    pub g1_id: Bytes,
    pub g2_id: Bytes,
    /// [`messages::some_matrix`], if it was put.
    pub matrix_id: Bytes,
    /// Dropped last.
    pub resources: ResourceCheck,
}

impl World {
    pub async fn new(settings: ServerSettings) -> Self {
        let resources = ResourceCheck::begin(&settings).await;
        let (engines, dial) = faulty_engines();
        let daemon = TestServer::with_engines(settings, engines);
        let channel = daemon.channel().await;
        let (g1, g2) = (messages::points::<G1Affine>(8), messages::points::<G2Affine>(8));
        let (g1_id, g2_id) = (put(&channel, &g1).await, put(&channel, &g2).await);
        // A permit is returned a moment after the answer.
        until_idle(&channel, "bases").await;
        let matrix_id = Bytes::new();
        Self { channel, daemon, dial, g1, g1_id, g2_id, matrix_id, resources }
    }

    /// Puts a matrix, too.
    pub async fn with_matrix(mut self) -> Self {
        self.matrix_id = put_matrix(&self.channel).await;
        until_idle(&self.channel, "a matrix").await;
        self
    }

    /// The spec of an MSM over all of the stored points of G1.
    pub fn spec(&self) -> v1::MsmSpec {
        messages::spec(v1::Group::G1 as i32, messages::stored(&self.g1_id, 0, 0))
    }

    /// A valid request and its result.
    pub fn good_msm(&self) -> (v1::MsmRequest, Bytes) {
        let scalars = messages::random(8);
        let inline =
            messages::scalars(v1::ScalarEncoding::Canonical, messages::canonical(&scalars));
        let sum = messages::compressed::<G1Affine>(messages::sum(&self.g1, &scalars));
        (messages::msm(self.spec(), inline), sum)
    }

    /// Asserts that the server computes, that nothing is left in flight, and that the memory and
    /// the descriptors of the process stayed within bounds since the last call.
    pub async fn assert_healthy(&self, name: &str) {
        let (request, expected) = self.good_msm();
        let send = async || Call::Msm(request.clone()).send(&self.channel).await;
        match retry_idle(send).await {
            Ok(sum) => assert_eq!(sum, expected, "{name}: the next MSM is wrong"),
            Err(status) => panic!("{name}: the next MSM is refused: {status}"),
        }
        until_idle(&self.channel, name).await;
        self.resources.assert_within(name);
    }

    /// Sends a row and checks its answer and the server's health.
    pub async fn check(&self, row: Row) {
        let name = row.name.clone();
        self.check_answer(row).await;
        self.assert_healthy(&name).await;
    }

    /// Sends a row and checks its answer.
    pub async fn check_answer(&self, row: Row) {
        let Row { name, call, expected } = row;
        let sent = tokio::time::timeout(TEST_TIMEOUT, call.send(&self.channel)).await;
        match (expected, sent.unwrap_or_else(|_| panic!("{name}: hangs"))) {
            (Ok(expected), Ok(result)) => {
                assert!(expected.is_none_or(|expected| expected == result), "{name}: wrong result");
            }
            (Ok(_), Err(status)) => panic!("{name}: {status}"),
            (Err(_), Ok(_)) => panic!("{name}: accepted"),
            (Err(refusal), Err(status)) => assert_refusal(&name, &status, &refusal),
        }
    }
}

/// Asserts a refusal that names no field.
pub fn assert_status(name: &str, status: &Status, code: Code, reason: &'static str) {
    assert_refusal(name, status, &Refusal { code, reason, field: "", index: None });
}

/// Asserts a refusal's content; `ErrorInfo` and `BadRequest` must name the same field and index.
fn assert_refusal(name: &str, status: &Status, refusal: &Refusal) {
    let Refusal { code, reason: expected, field, index } = *refusal;
    assert_eq!((status.code(), &*reason(status)), (code, expected), "{name}: {status}");
    if expected.is_empty() {
        return;
    }
    let info = status.get_details_error_info().expect("has a reason");
    assert_eq!(info.domain, "capstan", "{name}");
    let value = |key: &str| info.metadata.get(key).cloned().unwrap_or_default();
    let index = index.map_or(String::new(), |index| index.to_string());
    assert_eq!((&*value("field"), value("index")), (field, index.clone()), "{name}: {status}");
    if field.is_empty() {
        return;
    }
    let request = status.get_details_bad_request().expect("names the field");
    let at = if index.is_empty() { field.to_owned() } else { format!("{field}[{index}]") };
    assert_eq!(request.field_violations[0].field, at, "{name}");
    assert!(!request.field_violations[0].description.is_empty(), "{name}");
}

async fn put_matrix(channel: &Channel) -> Bytes {
    let matrix = messages::some_matrix();
    let chunk = messages::chunk(0, matrix.as_bytes().to_vec());
    let all = messages::put_matrix(messages::matrix(&matrix), vec![chunk]);
    let answer = retry_idle(async || store(channel).put(stream::iter(all.clone())).await).await;
    let object = answer.expect("a good matrix").into_inner().object.expect("an object");
    match object.kind {
        Some(v1::object::Kind::Matrix(matrix)) => matrix.object_id,
        _ => panic!("not a matrix"),
    }
}

async fn put<A: CurvePoint>(channel: &Channel, points: &[A]) -> Bytes {
    let put = async || store(channel).put(stream::iter(messages::put_points(points))).await;
    let answer = retry_idle(put).await;
    let object = answer.expect("good points").into_inner().object.expect("an object");
    match object.kind {
        Some(v1::object::Kind::Bases(bases)) => bases.object_id,
        _ => panic!("not bases"),
    }
}
