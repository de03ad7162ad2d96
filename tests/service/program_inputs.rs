//! Inputs of programs: several uploads in one stream, uploads over several connections, vectors on
//! the server, and outputs that are sent while later ones are computed.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::program_steps::put_bases;
use crate::service::daemon::{
    TEST_TIMEOUT, TestServer, UNREACHED_LIMIT, compute,
    faulty_engine::{EngineMode, faulty_engines},
    messages, programs, retry_until_ok, store, until_idle, until_load,
};

const N: usize = 1000;

fn server() -> TestServer {
    TestServer::start(ServerSettings { idle_timeout: UNREACHED_LIMIT, ..ServerSettings::default() })
}

/// The sum of two inputs.
fn sum_steps() -> [v1::step::Operation; 3] {
    let input = || programs::input(1, N as u64);
    [input(), input(), programs::pointwise(v1::PointwiseOperation::Add, &[0, 1])]
}

fn sums(a: &[Fr], b: &[Fr]) -> Bytes {
    let sums: Vec<_> = a.iter().zip(b).map(|(a, b)| *a + b).collect();
    messages::canonical(&sums)
}

async fn put_vector(channel: &Channel, id: &Bytes, elements: &[Fr]) {
    let vector = messages::vector(id, v1::ScalarEncoding::Canonical, elements.len() as u64);
    let chunks = vec![messages::chunk(0, messages::canonical(elements))];
    let messages = messages::put_vector(vector, chunks);
    store(channel).put(stream::iter(messages)).await.expect("a vector");
}

async fn release(channel: &Channel, id: &Bytes) {
    let id = Some(v1::release_request::Id::UploadId(id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.expect("is on the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_of_several_inputs_may_alternate() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (a, b) = all.split_at(N);
    let bytes = [messages::canonical(a), messages::canonical(b)];
    let inputs = vec![programs::new_upload(N as u64), programs::new_upload(N as u64)];
    let header = programs::call(sum_steps(), inputs, vec![programs::send(2)]);
    let half = 16 * N;
    // The second input's end comes first.
    let pieces = [(1, half), (0, 0), (1, 0), (0, half)];
    let chunks = pieces.map(|(input, start)| {
        let data = bytes[input as usize].slice(start..start + half);
        programs::chunk(input, start as u64, data)
    });
    let answer = programs::send_run(&channel, programs::run(header, chunks.into())).await.unwrap();
    assert!(answer.vectors[&0] == sums(a, b));
    assert!(answer.result.timing.unwrap().receive_us > 0);
    until_idle(&channel, "two uploads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_may_arrive_over_another_connection() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (a, b) = all.split_at(N);
    let id = messages::id();
    let vector = v1::VectorUpload {
        streams: 2,
        ..messages::vector(&id, v1::ScalarEncoding::Canonical, N as u64)
    };
    let inputs = vec![programs::upload(vector.clone()), programs::inline(b)];
    let header = programs::call(sum_steps(), inputs, vec![programs::send(2)]);
    let bytes = messages::canonical(a);
    let first_half = programs::chunk(0, 0, bytes.slice(..16 * N));
    let other = daemon.channel().await;
    let chunk = messages::chunk(16 * N as u64, bytes.slice(16 * N..));
    let put = messages::put_vector(vector, vec![chunk]);
    let (mut stripe, put) = (store(&other), stream::iter(put));
    let (answer, put) = tokio::join!(
        programs::send_run(&channel, programs::run(header, vec![first_half])),
        stripe.put(put)
    );
    assert!(answer.unwrap().vectors[&0] == sums(a, b));
    put.expect("the stripe is answered");
    until_idle(&channel, "an upload in two stripes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_may_be_parts_of_vectors_on_the_server() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let id = messages::id();
    put_vector(&channel, &id, &all).await;
    let inputs = vec![programs::stored(&id, 7), programs::stored(&id, N as u64)];
    let header = programs::call(sum_steps(), inputs, vec![programs::send(2)]);
    let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    assert!(answer.vectors[&0] == sums(&all[7..], &all[N..]));
    assert_eq!(answer.result.timing.unwrap().receive_us, 0);
    // It was read, not used up.
    release(&channel, &id).await;
    until_idle(&channel, "a vector").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_runs_when_its_part_of_an_upload_has_arrived() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (id, bytes) = (messages::id(), messages::canonical(&all));
    let vector = messages::vector(&id, v1::ScalarEncoding::Canonical, 2 * N as u64);
    let put = messages::put_vector(vector, vec![messages::chunk(0, bytes.slice(..32 * N))]);
    let mut client = store(&channel);
    let put = tokio::spawn(async move {
        client.put(stream::iter(put).chain(stream::pending())).await.map(drop)
    });
    // The vector is never completed.
    let steps = [programs::input(1, 4), programs::evaluate(0, Fr::from(1))];
    let header =
        programs::call(steps, vec![programs::stored(&id, N as u64 - 4)], vec![programs::send(1)]);
    let ask = async || {
        let messages = programs::run(header.clone(), vec![]);
        programs::send_run(&channel, messages).await.map_err(|status| status.to_string())
    };
    let answer = retry_until_ok("a part of an upload", ask).await;
    let sum: Fr = all[N - 4..N].iter().sum();
    assert!(answer.vectors[&0] == messages::canonical(&[sum]));
    put.abort();
    release(&channel, &id).await;
    until_idle(&channel, "half a vector").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn msms_read_narrow_inputs_and_other_inputs_are_reduced_on_request() {
    let daemon = server();
    let channel = daemon.channel().await;
    let bases = messages::points::<G1Affine>(N);
    let id = put_bases(&channel, &bases).await;
    let narrow = v1::program_input::Source::Inline(v1::InlineVector {
        encoding: v1::ScalarEncoding::U8 as i32,
        data: vec![1; N].into(),
    });
    let narrow = v1::ProgramInput { source: Some(narrow), reduce: false };
    let large = v1::ProgramInput { reduce: true, ..programs::inline_bytes(vec![0xff; 32]) };
    let steps =
        [programs::input(1, N as u64), programs::msm::<G1Affine>(0, &id, 0), programs::input(1, 1)];
    let outputs = vec![programs::points(1), programs::send(2)];
    let header = programs::call(steps, vec![narrow, large], outputs);
    let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    let ones = [Fr::from(1); N];
    let sum = messages::compressed::<G1Affine>(messages::sum(&bases, &ones));
    assert_eq!(answer.result.points[0], sum);
    let two_to_256 = (0..256).fold(Fr::from(1), |power, _| power + power);
    assert!(answer.vectors[&1] == messages::canonical(&[two_to_256 - Fr::from(1)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_can_be_repeated_as_it_is() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (a, b) = all.split_at(N);
    let kept = messages::id();
    let inputs = vec![programs::new_upload(N as u64), programs::inline(b)];
    let outputs = vec![programs::keep(2, &kept), programs::send(2)];
    let header = programs::call(sum_steps(), inputs, outputs);
    let chunk = programs::chunk(0, 0, messages::canonical(a));
    let messages = programs::run(header, vec![chunk]);
    for _ in 0..3 {
        let answer = programs::send_run(&channel, messages.clone()).await.unwrap();
        assert!(answer.vectors[&1] == sums(a, b));
    }
    release(&channel, &kept).await;
    until_idle(&channel, "the same call three times").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_call_resumes_its_uploads() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (a, b) = all.split_at(N);
    let inputs = vec![programs::new_upload(N as u64), programs::new_upload(N as u64)];
    let header = programs::call(sum_steps(), inputs, vec![programs::send(2)]);
    let (a_bytes, b_bytes) = (messages::canonical(a), messages::canonical(b));
    let begun = vec![
        programs::chunk(0, 0, a_bytes.clone()),
        programs::chunk(1, 0, b_bytes.slice(..16 * N)),
    ];
    let mut client = compute(&daemon.channel().await);
    let messages = stream::iter(programs::run(header.clone(), begun)).chain(stream::pending());
    let call = tokio::spawn(async move { client.run(messages).await.map(drop) });
    until_load(&channel, "the job is accepted", |load| load.jobs == 1).await;
    let upload_id = match &header.inputs[1].source {
        Some(v1::program_input::Source::Upload(vector)) => vector.upload_id.clone(),
        _ => panic!("not an upload"),
    };
    retry_until_ok("half of the second input", async || {
        let id = Some(v1::stat_request::Id::UploadId(upload_id.clone()));
        let found = store(&channel).stat(v1::StatRequest { id }).await;
        match found.map(|found| found.into_inner().status) {
            Ok(Some(v1::stat_response::Status::Upload(upload)))
                if upload.bytes_received == 16 * N as u64 =>
            {
                Ok(())
            }
            other => Err(other),
        }
    })
    .await;
    call.abort();
    until_load(&channel, "the job is gone", |load| load.jobs == 0).await;
    // The first input and half of the second one are still there.
    let rest = vec![programs::chunk(1, 16 * N as u64, b_bytes.slice(16 * N..))];
    let answer = programs::send_run(&channel, programs::run(header, rest)).await.unwrap();
    assert!(answer.vectors[&0] == sums(a, b));
    until_idle(&channel, "resumed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_sent_while_later_ones_are_computed() {
    let (engines, dial) = faulty_engines();
    let settings = ServerSettings { idle_timeout: UNREACHED_LIMIT, ..ServerSettings::default() };
    let daemon = TestServer::with_engines(settings, engines);
    let channel = daemon.channel().await;
    let steps = [programs::input(1, 4), programs::ntt(0, 2), programs::ntt(1, 2)];
    let a = messages::random(4);
    let outputs = vec![programs::send(1), programs::send(2)];
    let header = programs::call(steps, vec![programs::inline(&a)], outputs);
    dial.set(EngineMode::HangsNext);
    let messages = stream::iter(programs::run(header, vec![]));
    let mut client = compute(&channel);
    let answer = tokio::time::timeout(TEST_TIMEOUT, client.run(messages)).await;
    let mut answers = answer.expect("begins with the first output").unwrap().into_inner();
    let first = tokio::time::timeout(TEST_TIMEOUT, answers.message()).await.expect("a chunk");
    match first.unwrap().unwrap().message {
        Some(v1::run_response::Message::Chunk(chunk)) => assert_eq!(chunk.output, 0),
        other => panic!("expected a chunk, got {other:?}"),
    }
    dial.set(EngineMode::Honest);
    let mut outputs = 1;
    while let Some(answer) = answers.message().await.unwrap() {
        outputs += 1;
        drop(answer);
    }
    assert_eq!(outputs, 3, "the second output and the result follow");
    until_idle(&channel, "two outputs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_may_start_before_its_inputs_arrive() {
    let daemon = server();
    let channel = daemon.channel().await;
    let all = messages::random(2 * N);
    let (a, b) = all.split_at(N);
    let inputs = vec![programs::new_upload(N as u64), programs::inline(b)];
    let header = programs::call(sum_steps(), inputs, vec![programs::send(2)]);
    let (sender, receiver) = mpsc::channel(1);
    sender.send(programs::run_request(header)).await.unwrap();
    let mut client = compute(&channel);
    let call = tokio::spawn(async move { client.run(ReceiverStream::new(receiver)).await });
    until_load(&channel, "the job is accepted", |load| load.jobs == 1).await;
    assert!(!call.is_finished());
    sender.send(programs::chunk(0, 0, messages::canonical(a))).await.unwrap();
    let answers = call.await.unwrap().unwrap().into_inner();
    let answer = programs::read_answer(answers).await.unwrap();
    assert!(answer.vectors[&0] == sums(a, b));
}
