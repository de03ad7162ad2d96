//! Randomly mutated messages: the server may return any status except that of a bug.

use bytes::{Buf, BufMut, Bytes};
use capstan::{curve::G1Affine, wire::v1};
use futures_util::stream;
use proptest::{prelude::*, test_runner::RngSeed};
use prost::Message;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

use crate::{
    daemon::{TEST_TIMEOUT, messages, programs, retry_idle},
    sweep,
    table::{Call, World, settings},
};

/// A codec that passes messages through as bytes.
#[derive(Clone, Copy, Default)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Every method, with a stream of valid messages for it.
fn corpus(world: &World) -> Vec<(&'static str, Vec<Bytes>)> {
    fn all<M: Message>(messages: Vec<M>) -> Vec<Bytes> {
        messages.iter().map(|message| message.encode_to_vec().into()).collect()
    }
    let chunk = || vec![messages::chunk(0, vec![1; 64])];
    let of = v1::ScalarEncoding::Canonical;
    let vector = || messages::new_vector(of, 2);
    let inline = || messages::scalars(of, vec![1; 64]);
    let slice = messages::spec(v1::Group::G1 as i32, messages::stored(&world.g1_id, 1, 2));
    let inline_spec = messages::spec(v1::Group::G1 as i32, messages::inline(&world.g1[..2]));
    let id = world.g1_id.clone();
    let get = v1::GetRequest {
        id: Some(v1::get_request::Id::ObjectId(id.clone())),
        encoding: Some(1),
        ..v1::GetRequest::default()
    };
    let steps = [
        programs::input(1, 2),
        programs::input(1, 2),
        programs::ntt(0, 1),
        programs::pointwise(v1::PointwiseOperation::Multiply, &[1, 2]),
        programs::evaluate(3, 5.into()),
        programs::msm::<G1Affine>(3, &world.g1_id, 1),
    ];
    let program = Some(programs::program(steps.clone()));
    let of_words = Some(programs::program(programs::word_steps()));
    let inputs = vec![programs::new_upload(2), programs::inline_bytes(vec![1; 64])];
    let kept = programs::keep(3, &messages::id());
    let outputs = vec![programs::send(4), kept, programs::points(5)];
    let run = programs::call(steps, inputs, outputs);
    let run_chunk = vec![programs::chunk(0, 0, vec![1; 64])];
    let verify = v1::Verify::Full as i32;
    let reference = run.program.clone();
    let estimate = v1::EstimateRequest { program: reference, outputs: vec![3, 5], verify };
    let stat = v1::StatRequest { id: Some(v1::stat_request::Id::ObjectId(id)) };
    vec![
        ("/capstan.v1.Compute/Msm", all(vec![messages::msm(slice.clone(), inline())])),
        ("/capstan.v1.Compute/Msm", all(vec![messages::msm(inline_spec, inline())])),
        ("/capstan.v1.Compute/MsmStream", all(messages::msm_stream(slice, vector(), chunk()))),
        ("/capstan.v1.Compute/Ntt", all(vec![messages::ntt(messages::ntt_spec(1), inline())])),
        (
            "/capstan.v1.Compute/NttStream",
            all(messages::ntt_stream(messages::ntt_spec(1), vector(), chunk())),
        ),
        ("/capstan.v1.Compute/Run", all(programs::run(run.clone(), run_chunk))),
        ("/capstan.v1.Compute/Run", all(programs::run(programs::word_call(), vec![]))),
        ("/capstan.v1.Compute/Estimate", all(vec![estimate])),
        ("/capstan.v1.Store/PutProgram", all(vec![v1::PutProgramRequest { program }])),
        ("/capstan.v1.Store/PutProgram", all(vec![v1::PutProgramRequest { program: of_words }])),
        ("/capstan.v1.Store/Put", all(messages::put_points(&world.g1[..3]))),
        ("/capstan.v1.Store/Put", all(messages::put_vector(vector(), chunk()))),
        ("/capstan.v1.Store/Get", all(vec![get])),
        ("/capstan.v1.Store/Stat", all(vec![stat])),
        (
            "/capstan.v1.Store/List",
            all(vec![v1::ListRequest {
                group: Some(1),
                page_size: 3,
                page_token: vec![7; 40].into(),
            }]),
        ),
        ("/capstan.v1.Admin/GetInfo", all(vec![v1::GetInfoRequest {}])),
        ("/capstan.v1.Nobody/Nothing", vec![Bytes::new()]),
    ]
}

async fn send(channel: &Channel, path: &'static str, messages: Vec<Bytes>) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let request = Request::new(stream::iter(messages));
    let answers = grpc.streaming(request, PathAndQuery::from_static(path), BytesCodec).await?;
    let mut answers = answers.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

/// One change to a stream of messages.
#[derive(Debug, Clone)]
enum Change {
    Byte(usize, u8),
    Insert(usize, Vec<u8>),
    Cut(usize),
    Swap(usize),
    Drop(usize),
    Duplicate(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<usize>(), any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
        2 => (any::<usize>(), prop::collection::vec(any::<u8>(), 1..12))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => any::<usize>().prop_map(Change::Cut),
        1 => any::<usize>().prop_map(Change::Swap),
        1 => any::<usize>().prop_map(Change::Drop),
        1 => any::<usize>().prop_map(Change::Duplicate),
    ]
}

fn apply(messages: &mut Vec<Bytes>, change: &Change) {
    let which = |at: usize| at % messages.len();
    match change {
        _ if messages.is_empty() => {}
        Change::Byte(at, value) => {
            let i = which(*at);
            let mut bytes = messages[i].to_vec();
            if !bytes.is_empty() {
                // Tags and lengths are in the first bytes: most changes go there.
                let at = at / 7 % bytes.len().min(48);
                bytes[at] = *value;
            }
            messages[i] = bytes.into();
        }
        Change::Insert(at, more) => {
            let i = which(*at);
            let mut bytes = messages[i].to_vec();
            let at = at / 7 % (bytes.len() + 1);
            bytes.splice(at..at, more.iter().copied());
            messages[i] = bytes.into();
        }
        Change::Cut(at) => {
            let i = which(*at);
            let len = messages[i].len();
            messages[i].truncate(at / 7 % (len + 1));
        }
        Change::Swap(at) => {
            let i = which(*at);
            messages.swap(0, i);
        }
        Change::Drop(at) => drop(messages.remove(which(*at))),
        Change::Duplicate(at) => messages.push(messages[which(*at)].clone()),
    }
}

/// Sends `cases` messages with random changes from this seed.
fn check_mutations(seed: u64, cases: u32) {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let world = &runtime.block_on(World::new(capstan::server::ServerSettings {
        idle_timeout: std::time::Duration::from_millis(200),
        ..settings()
    }));
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Default::default()
    };
    let corpus = corpus(world);
    let input = (0..corpus.len(), prop::collection::vec(change(), 1..4));
    proptest!(config, |((which, changes) in input)| {
        let (path, mut messages) = corpus[which].clone();
        changes.iter().for_each(|change| apply(&mut messages, change));
        let sent = runtime.block_on(async {
            tokio::time::timeout(TEST_TIMEOUT, send(&world.channel, path, messages)).await
        });
        if let Err(status) = sent.expect("does not hang") {
            let bug = matches!(status.code(), Code::Unknown | Code::Unavailable | Code::Cancelled)
                || status.message() == "internal error: see the server's log";
            prop_assert!(!bug, "{}: {}", path, status);
        }
    });
    runtime.block_on(async {
        // A mutation may have left a vector on the server, which must not affect a job.
        let (request, sum) = world.good_msm();
        let send = async || Call::Msm(request.clone()).send(&world.channel).await;
        assert_eq!(retry_idle(send).await.expect("still serves"), sum);
    });
}

#[test]
fn mutated_messages_never_cause_an_internal_error() {
    check_mutations(0, 200);
}

#[test]
#[ignore = "sweep"]
fn messages_mutated_from_many_seeds_never_cause_an_internal_error() {
    for seed in sweep::cases("mutated messages", 1..=10) {
        check_mutations(seed, 1800);
    }
}
