//! Programs whose results are checked.

use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use tonic::Code;

use super::program_steps::{put_bases, transform};
use crate::service::daemon::{
    TestServer,
    faulty_engine::{EngineMode, faulty_engines},
    messages, programs, reason, store, until_idle,
};

const N: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_cover_the_steps_that_the_answer_names() {
    use v1::Verify::{Full, None as Unchecked, Probabilistic};
    let (engines, dial) = faulty_engines();
    let daemon = TestServer::with_engines(ServerSettings::default(), engines);
    let channel = daemon.channel().await;
    let bases = messages::points::<G1Affine>(N);
    let id = put_bases(&channel, &bases).await;
    let a = messages::random(N);
    let kept = messages::id();
    let steps = [
        programs::input(1, N as u64),
        programs::ntt(0, 3),
        programs::linear_combination(&[1], &[Fr::from(1)]),
        programs::msm::<G1Affine>(2, &id, 0),
        // No output needs the last step.
        programs::pad(0, 16),
    ];
    let outputs = vec![programs::send(2), programs::points(3), programs::keep(1, &kept)];
    let header = programs::call(steps, vec![programs::inline(&a)], outputs);
    let run = async |verify: v1::Verify| {
        let header = v1::RunHeader { verify: verify as i32, ..header.clone() };
        programs::send_run(&channel, programs::run(header, vec![])).await
    };
    let values = transform(&a, Fr::from(1));
    let sum = messages::compressed::<G1Affine>(messages::sum(&bases, &values));
    for (verify, covered) in [
        (Unchecked, [Unchecked; 5]),
        (Full, [Full, Full, Full, Full, Unchecked]),
        (Probabilistic, [Unchecked, Probabilistic, Unchecked, Probabilistic, Unchecked]),
    ] {
        let answer = run(verify).await.unwrap();
        assert!(answer.vectors[&0] == messages::canonical(&values), "{verify:?}");
        assert_eq!(answer.result.points[1], sum, "{verify:?}");
        let steps = answer.result.steps.iter().map(v1::StepReport::verified);
        assert_eq!(steps.collect::<Vec<_>>(), covered, "{verify:?}");
        assert_eq!(answer.result.execution.unwrap().verified(), verify);
        assert_eq!(answer.result.timing.unwrap().verify_us > 0, verify != Unchecked);
    }
    let release = async || {
        let id = Some(v1::release_request::Id::UploadId(kept.clone()));
        store(&channel).release(v1::ReleaseRequest { id }).await
    };
    release().await.expect("was kept");
    dial.set(EngineMode::WrongResults);
    for verify in [Full, Probabilistic] {
        let refused = run(verify).await.unwrap_err();
        assert_eq!((refused.code(), &*reason(&refused)), (Code::DataLoss, "VERIFY_FAILED"));
        assert_eq!(release().await.unwrap_err().code(), Code::NotFound, "a wrong vector is kept");
    }
    dial.set(EngineMode::Honest);
    until_idle(&channel, "checked programs").await;
}
