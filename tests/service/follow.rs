//! Rows that are sent while later ones are computed.

use bytes::Bytes;
use capstan::{
    curve::Fr,
    engine::{Control, Engine, NttPlan, cpu::ArkworksEngine},
    server::Settings,
    wire::v1::{self, NttStreamResponse as Answer, ntt_stream_response::Message},
};
use tokio::time::timeout;
use tonic::{Code, Streaming, transport::Channel};

use crate::daemon::{
    Daemon, HANGING, compute,
    engine::{Dial, Mode, moody},
    say, settled,
};

/// A row is one message.
const LG_N: u32 = 13;
const ROW: usize = 32 << LG_N;

fn server() -> (Daemon, Dial) {
    let (engines, dial) = moody();
    (Daemon::with_engines(Settings::default(), engines), dial)
}

/// A transform of two rows, and what becomes of them.
fn transform() -> (Vec<Fr>, Bytes) {
    let rows = say::random(2 << LG_N);
    let (coset, inverse, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n: LG_N, inverse, coset, input_reversed, output_reversed };
    let mut done: Vec<_> = rows.chunks(1 << LG_N).map(<[_]>::to_vec).collect();
    let oracle = ArkworksEngine::new(1).expect("a thread");
    oracle.ntt_in_place(&plan, &mut done, &Control::default()).expect("a transform");
    (rows, say::canonical(&done.concat()))
}

fn request(elements: Bytes, verify: v1::Verify) -> Vec<v1::NttStreamRequest> {
    let spec = v1::NttSpec {
        batch: 2,
        verify: verify as i32,
        output_encoding: v1::ScalarEncoding::Canonical as i32,
        ..say::ntt_spec(LG_N)
    };
    let vector = say::vector(&say::id(), v1::ScalarEncoding::Canonical, 2 << LG_N);
    let half = |at: usize| say::chunk(at as u64, elements.slice(at..at + ROW));
    say::ntt_stream(spec, vector, vec![half(0), half(ROW)])
}

/// The answer, which must not wait for the second row.
async fn begin(channel: &Channel, request: Vec<v1::NttStreamRequest>) -> Streaming<Answer> {
    let mut compute = compute(channel);
    let answer = compute.ntt_stream(tokio_stream::iter(request));
    let answer = timeout(HANGING, answer).await.expect("the first row is there");
    answer.expect("no error").into_inner()
}

async fn next(answer: &mut Streaming<Answer>) -> Option<Message> {
    let message = answer.message().await.expect("no error");
    message.map(|message| message.message.expect("something"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_while_later_ones_are_computed() {
    let (daemon, dial) = server();
    let channel = daemon.channel().await;
    let (rows, expected) = transform();
    dial.set(Mode::HangsNext);
    let request = request(say::canonical(&rows), v1::Verify::None);
    let mut answer = begin(&channel, request).await;
    // The second row is not computed before the first one has come.
    for (row, mode) in [(0, Mode::Hangs), (1, Mode::Honest)] {
        dial.set(mode);
        let Some(Message::Chunk(chunk)) = next(&mut answer).await else { panic!("a row") };
        assert_eq!(chunk.offset as usize, row * ROW);
        assert!(chunk.data == expected[row * ROW..][..ROW], "row {row}");
    }
    assert!(matches!(next(&mut answer).await, Some(Message::Result(_))));
    assert!(next(&mut answer).await.is_none());
    settled(&channel, "a transform").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_reading_stops_the_job() {
    let (daemon, dial) = server();
    let channel = daemon.channel().await;
    let (rows, _) = transform();
    dial.set(Mode::HangsNext);
    let request = request(say::canonical(&rows), v1::Verify::None);
    drop(begin(&channel, request).await);
    settled(&channel, "a reader that left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_may_follow_rows_but_no_summary() {
    let (daemon, _) = server();
    let channel = daemon.channel().await;
    let (rows, _) = transform();
    let mut elements = say::canonical(&rows).to_vec();
    elements[ROW + 64..ROW + 96].fill(0xff);
    for verify in [v1::Verify::None, v1::Verify::Probabilistic] {
        let request = request(elements.clone().into(), verify);
        let answer = compute(&channel).ntt_stream(tokio_stream::iter(request)).await;
        let status = match answer {
            Err(status) => status,
            Ok(answer) => {
                assert_eq!(verify, v1::Verify::None, "checked rows come when all are right");
                let mut answer = answer.into_inner();
                loop {
                    match answer.message().await {
                        Ok(message) => {
                            let message = message.and_then(|message| message.message);
                            assert!(matches!(message, Some(Message::Chunk(_))), "{message:?}");
                        }
                        Err(status) => break status,
                    }
                }
            }
        };
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        settled(&channel, "a row that is none").await;
    }
}
