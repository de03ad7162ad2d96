//! NTT rows that are sent while later rows are computed.

use bytes::Bytes;
use capstan::{
    curve::Fr,
    engine::{JobControl, MsmNttEngine, NttPlan, cpu::ArkworksEngine},
    server::ServerSettings,
    wire::v1::{self, NttStreamResponse as Answer, ntt_stream_response::Message},
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::service::daemon::{
    TEST_TIMEOUT, TestServer, UNREACHED_LIMIT, compute,
    faulty_engine::{EngineMode, FaultDial, faulty_engines},
    messages, reason, until_idle,
};

/// A row is one message.
const LG_N: u32 = 13;
const ROW: usize = 32 << LG_N;

fn server() -> (TestServer, FaultDial) {
    let (engines, dial) = faulty_engines();
    let settings = ServerSettings { idle_timeout: UNREACHED_LIMIT, ..ServerSettings::default() };
    (TestServer::with_engines(settings, engines), dial)
}

/// Two rows, and the bytes of their transforms.
fn transform() -> (Vec<Fr>, Bytes) {
    let rows = messages::random(2 << LG_N);
    let (coset, inverse, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n: LG_N, inverse, coset, input_reversed, output_reversed };
    let mut done: Vec<_> = rows.chunks(1 << LG_N).map(<[_]>::to_vec).collect();
    let oracle = ArkworksEngine::new(1).expect("a thread");
    oracle.ntt_in_place(&plan, &mut done, &JobControl::default()).expect("a transform");
    (rows, messages::canonical(&done.concat()))
}

fn request(elements: Bytes, verify: v1::Verify) -> Vec<v1::NttStreamRequest> {
    let spec = v1::NttSpec {
        batch: 2,
        verify: verify as i32,
        output_encoding: v1::ScalarEncoding::Canonical as i32,
        ..messages::ntt_spec(LG_N)
    };
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 2 << LG_N);
    let half = |at: usize| messages::chunk(at as u64, elements.slice(at..at + ROW));
    messages::ntt_stream(spec, vector, vec![half(0), half(ROW)])
}

/// Starts the call and returns its answer stream, which must not wait for the second row.
async fn begin(channel: &Channel, request: Vec<v1::NttStreamRequest>) -> Streaming<Answer> {
    let mut compute = compute(channel);
    let answer = compute.ntt_stream(tokio_stream::iter(request));
    let answer = timeout(TEST_TIMEOUT, answer).await.expect("the answer begins with the first row");
    answer.expect("no error").into_inner()
}

async fn next(answer: &mut Streaming<Answer>) -> Result<Option<Message>, Status> {
    let message = timeout(TEST_TIMEOUT, answer.message()).await.expect("a message or the end");
    Ok(message?.map(|message| message.message.expect("a message")))
}

/// The next row.
async fn row(answer: &mut Streaming<Answer>) -> v1::Chunk {
    match next(answer).await.expect("no error") {
        Some(Message::Chunk(chunk)) => chunk,
        other => panic!("expected a row, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_sent_while_later_ones_are_computed() {
    let (daemon, dial) = server();
    let channel = daemon.channel().await;
    let (rows, expected) = transform();
    dial.set(EngineMode::HangsNext);
    let request = request(messages::canonical(&rows), v1::Verify::None);
    let mut answer = begin(&channel, request).await;
    // The second row is not computed before the first one has arrived.
    for (number, mode) in [(0, EngineMode::Hangs), (1, EngineMode::Honest)] {
        dial.set(mode);
        let chunk = row(&mut answer).await;
        assert_eq!(chunk.offset as usize, number * ROW);
        assert!(chunk.data == expected[number * ROW..][..ROW], "row {number}");
    }
    assert!(matches!(next(&mut answer).await, Ok(Some(Message::Result(_)))));
    assert!(matches!(next(&mut answer).await, Ok(None)));
    until_idle(&channel, "a transform").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_disconnects_stops_the_job() {
    let (daemon, dial) = server();
    let channel = daemon.channel().await;
    let (rows, _) = transform();
    dial.set(EngineMode::HangsNext);
    let request = request(messages::canonical(&rows), v1::Verify::None);
    drop(begin(&channel, request).await);
    until_idle(&channel, "a reader that left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_may_follow_rows_and_replaces_the_summary() {
    let (daemon, dial) = server();
    let channel = daemon.channel().await;
    let (rows, expected) = transform();
    let mut elements = messages::canonical(&rows).to_vec();
    elements[ROW + 64..ROW + 96].fill(0xff);
    let request = |verify| request(elements.clone().into(), verify);
    // The second row is not decoded before the first one has arrived.
    dial.set(EngineMode::HangsNext);
    let mut answer = begin(&channel, request(v1::Verify::None)).await;
    assert!(row(&mut answer).await.data == expected[..ROW], "the first row");
    dial.set(EngineMode::Honest);
    let followed = next(&mut answer).await.expect_err("the second row is not canonical");
    until_idle(&channel, "a row that is not canonical").await;
    // Rows of a verified transform are sent after all of them have passed.
    let mut compute = compute(&channel);
    let call = compute.ntt_stream(tokio_stream::iter(request(v1::Verify::Probabilistic)));
    let checked = timeout(TEST_TIMEOUT, call).await.expect("an answer").expect_err("no row comes");
    until_idle(&channel, "a verified row that is not canonical").await;
    for status in [followed, checked] {
        let refusal = (status.code(), reason(&status));
        assert_eq!(refusal, (Code::InvalidArgument, "NOT_CANONICAL".to_owned()), "{status}");
    }
}
