//! Calls that would take too long by the server's model are refused.

use std::time::Duration;

use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1::{self, step::Operation},
};
use futures_util::stream;
use tonic::{Code, Status};

use crate::service::{
    daemon::{TestServer, compute, messages, programs, reason, store, until_idle},
    stored_programs::{N, estimate},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eliminations_that_would_take_too_long_are_refused() {
    let program_time_max = Duration::from_secs(1);
    let daemon = TestServer::start(ServerSettings { program_time_max, ..Default::default() });
    let field = v1::Field::Gf2.into();
    let input = Operation::Input(v1::InputStep { field, rows: 1, length: 1 });
    // A matrix of 2^13 rows and columns, eliminated again and again in the same memory.
    let last = 1000;
    let form = |input| Operation::Gf2Echelon(v1::Gf2EchelonStep { input, columns: 1 << 13 });
    let steps = [input, programs::pad(0, 1 << 20)].into_iter().chain((1..last).map(form));
    let vector = messages::new_vector(v1::ScalarEncoding::PackedBits64, 1);
    let encoding = v1::ScalarEncoding::PackedBits64.into();
    let delivery = Some(v1::program_output::Delivery::Send(v1::SendVector { encoding }));
    let outputs = vec![v1::ProgramOutput { delivery, ..programs::send(last) }];
    let header = programs::call(steps, vec![programs::upload(vector)], outputs);
    let run = programs::run(header, vec![]);
    let refused = programs::send_run(&daemon.channel().await, run).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "PROGRAM_TIME"));
    // The last step takes longest, because its value is sent.
    assert!(refused.message().starts_with("program.steps[1000].gf2_echelon: "), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_would_take_too_long_is_refused_with_its_longest_step() {
    let max = Duration::from_secs(1);
    let daemon =
        TestServer::start(ServerSettings { program_time_max: max, ..ServerSettings::default() });
    let channel = daemon.channel().await;
    // Many transforms in the same memory, of which the first is named.
    let last = 200;
    let program = || {
        let large = (1..last).map(|input| programs::ntt(input, 20));
        let small = [programs::input(1, N), programs::ntt(0, 10)];
        let steps = small.into_iter().chain(large).chain([programs::evaluate(last, Fr::from(3))]);
        programs::inline_program(programs::program(steps))
    };
    let run = |output| {
        let inputs = vec![programs::new_upload(N)];
        let header = programs::header(program(), inputs, vec![programs::send(output)]);
        // No chunk of the input follows.
        programs::send_run(&channel, programs::run(header, vec![]))
    };
    let taken = estimate(&channel, program(), vec![last + 1], v1::Verify::None).await.unwrap();
    assert!(Duration::from_micros(taken.modelled_time_us) > max, "{taken:?}");
    let refused = run(last + 1).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "PROGRAM_TIME"));
    let message = refused.message();
    assert!(message.starts_with("program.steps[2].ntt: the program would take "), "{message}");
    assert!(message.ends_with("at most 1 s are allowed (program_time_max_s)"), "{message}");
    // A product takes as long as its transforms.
    let cyclic = Some(v1::poly_mul_step::Reduction::Cyclic(1 << 20));
    let squares = (0..last).map(|input| programs::poly_mul(&[input, input], cyclic));
    let small = programs::evaluate(last, Fr::from(3));
    let steps = std::iter::once(programs::input(1, N)).chain(squares).chain([small]);
    let product = programs::inline_program(programs::program(steps));
    let sent = vec![programs::send(last + 1)];
    let header = programs::header(product, vec![programs::new_upload(N)], sent);
    let refused = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "PROGRAM_TIME"));
    assert!(refused.message().starts_with("program.steps[2].poly_mul: "), "{refused:?}");
    // Steps that no output needs take no time.
    let small = estimate(&channel, program(), vec![1], v1::Verify::None).await.unwrap();
    assert!(Duration::from_micros(small.modelled_time_us) < max, "{small:?}");
    let header = programs::header(
        program(),
        vec![programs::inline(&messages::random(N as usize))],
        vec![programs::send(1)],
    );
    programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    until_idle(&channel, "a program that is too slow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn msms_and_ntts_that_would_take_too_long_are_refused() {
    let program_time_max = Duration::from_micros(1);
    let daemon = TestServer::start(ServerSettings { program_time_max, ..Default::default() });
    let channel = daemon.channel().await;
    let points = messages::points::<G1Affine>(8);
    let put = store(&channel).put(stream::iter(messages::put_points(&points))).await.unwrap();
    let object = put.into_inner().object.unwrap();
    let Some(v1::object::Kind::Bases(bases)) = object.kind else { panic!("no bases: {object:?}") };
    let spec = || messages::spec(v1::Group::G1.into(), messages::stored(&bases.object_id, 0, 0));
    let encoding = v1::ScalarEncoding::Canonical;
    let elements = |n| messages::scalars(encoding, messages::canonical(&messages::random(n)));
    // No chunk of an upload follows.
    let upload = |n| messages::new_vector(encoding, n);
    let mut client = compute(&channel);
    let is_refused = |answer: Result<(), Status>, step: &str| {
        let refused = answer.unwrap_err();
        assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "PROGRAM_TIME"));
        let start = format!("program.steps[1].{step}: the program would take ");
        assert!(refused.message().starts_with(&start), "{refused}");
    };
    is_refused(client.msm(messages::msm(spec(), elements(8))).await.map(drop), "msm");
    let streamed = stream::iter(messages::msm_stream(spec(), upload(8), vec![]));
    is_refused(client.msm_stream(streamed).await.map(drop), "msm");
    let transform = messages::ntt_spec(10);
    let unary = messages::ntt(transform.clone(), elements(N as usize));
    is_refused(client.ntt(unary).await.map(drop), "ntt");
    let streamed = stream::iter(messages::ntt_stream(transform, upload(N), vec![]));
    is_refused(client.ntt_stream(streamed).await.map(drop), "ntt");
    until_idle(&channel, "calls that are too slow").await;
}
