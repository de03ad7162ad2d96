//! Programs that are stored by their content, and what a call of a program would take.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use tonic::{Code, Status, transport::Channel};

use crate::service::daemon::{
    TestServer, UNREACHED_LIMIT, compute, messages, programs, reason, store, until_idle, until_load,
};

pub const N: u64 = 1 << 10;

fn steps() -> v1::Program {
    program(Fr::from(1))
}

fn program(point: Fr) -> v1::Program {
    programs::program([programs::input(1, N), programs::evaluate(0, point)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_program_is_named_by_its_content() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let stored = programs::put_program(&channel, steps()).await;
    assert!(!stored.existed && stored.program_id.len() == 32);
    let again = programs::put_program(&channel, steps()).await;
    assert!(again.existed && again.program_id == stored.program_id);
    let other = programs::put_program(&channel, program(Fr::from(2))).await;
    assert!(!other.existed && other.program_id != stored.program_id);
    let encoded = prost::Message::encode_to_vec(&steps());
    assert_eq!(stored.program_id, blake3::derive_key("capstan v1 program", &encoded)[..]);

    let elements = messages::random(N as usize);
    for (id, point) in [(&stored.program_id, 1), (&other.program_id, 2)] {
        let reference = programs::stored_program(id);
        let inputs = vec![programs::inline(&elements)];
        let header = programs::header(reference, inputs, vec![programs::send(1)]);
        let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
        let value = elements.iter().rev().fold(Fr::from(0), |sum, e| sum * Fr::from(point) + e);
        assert!(answer.vectors[&0] == messages::canonical(&[value]));
    }
    until_idle(&channel, "stored programs").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_with_a_wrong_step_is_not_stored() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let wrong = programs::program([programs::input(1, N), programs::pad(0, 1)]);
    let request = v1::PutProgramRequest { program: Some(wrong.clone()) };
    let refused = store(&channel).put_program(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().starts_with("program.steps[1].pad.length: "), "{refused}");
    let encoded = prost::Message::encode_to_vec(&wrong);
    let id = Bytes::copy_from_slice(&blake3::derive_key("capstan v1 program", &encoded));
    let header = programs::header(programs::stored_program(&id), vec![], vec![programs::send(0)]);
    let unknown = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap_err();
    assert_eq!((unknown.code(), &*reason(&unknown)), (Code::NotFound, "OBJECT_UNKNOWN"));
}

pub async fn estimate(
    channel: &Channel,
    program: Option<v1::ProgramRef>,
    outputs: Vec<u32>,
    verify: v1::Verify,
) -> Result<v1::EstimateResponse, Status> {
    let request = v1::EstimateRequest { program, outputs, verify: verify as i32 };
    Ok(compute(channel).estimate(request).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_is_what_a_call_takes_from_the_budget() {
    let daemon = TestServer::start(ServerSettings {
        idle_timeout: UNREACHED_LIMIT,
        ..ServerSettings::default()
    });
    let channel = daemon.channel().await;
    let steps = programs::program([
        programs::input(1, N),
        programs::ntt(0, 10),
        programs::pointwise(v1::PointwiseOperation::Multiply, &[0, 1]),
        programs::evaluate(2, Fr::from(3)),
    ]);
    let program = || programs::inline_program(steps.clone());
    for verify in [v1::Verify::None, v1::Verify::Full, v1::Verify::Probabilistic] {
        let taken = estimate(&channel, program(), vec![1, 3], verify).await.unwrap();
        assert_eq!((taken.input_bytes, taken.output_bytes), (32 * N, 32 * N + 32));
        assert!(taken.value_bytes >= 64 * N && taken.scratch_bytes > 0, "{taken:?}");
        assert_eq!((&*taken.engine, taken.jobs_ahead, taken.time_ahead_us), ("cpu", 0, Some(0)));
        assert!(!taken.device.is_empty() && taken.modelled_time_us > 0, "{taken:?}");
        let bytes = [taken.input_bytes, taken.output_bytes, taken.value_bytes, taken.scratch_bytes];
        // A call whose input does not arrive holds what was estimated.
        let outputs = vec![programs::send(1), programs::send(3)];
        let header = programs::header(program(), vec![programs::new_upload(N)], outputs);
        let header = v1::RunHeader { verify: verify as i32, ..header };
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        sender.send(programs::run_request(header)).await.unwrap();
        let messages = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let mut client = compute(&channel);
        let call = tokio::spawn(async move { client.run(messages).await.map(drop) });
        until_load(&channel, "the call is admitted", |load| {
            load.jobs == 1 && load.bytes_in_flight == bytes.iter().sum::<u64>()
        })
        .await;
        let busy = estimate(&channel, program(), vec![], verify).await.unwrap();
        // Only the last value is wanted if no output is named.
        assert_eq!((busy.jobs_ahead, busy.output_bytes), (1, 32));
        assert_eq!(busy.time_ahead_us, Some(taken.modelled_time_us));
        call.abort();
        drop(sender);
        until_idle(&channel, "an admitted call").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_estimate_needs_no_bases_and_may_exceed_the_budget() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let unknown = Bytes::from(vec![7; 32]);
    let steps = [programs::input(1, 1 << 40), programs::msm::<G1Affine>(0, &unknown, 0)];
    let program = programs::inline_program(programs::program(steps));
    let taken = estimate(&channel, program.clone(), vec![], v1::Verify::None).await.unwrap();
    assert_eq!(taken.input_bytes, 32 << 40);
    assert!(taken.modelled_time_us > 600_000_000, "{taken:?}");
    let refused = estimate(&channel, program, vec![2], v1::Verify::None).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "OUT_OF_RANGE"));
    let id = programs::stored_program(&unknown);
    let refused = estimate(&channel, id, vec![], v1::Verify::None).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::NotFound, "OBJECT_UNKNOWN"));
}
