//! Engines that return wrong results or panic.

use capstan::wire::v1;
use tonic::Code;

use crate::{
    daemon::{faulty_engine::EngineMode, messages},
    table::{Call, World, assert_status, settings},
};

fn msm(world: &World, group: v1::Group, verify: v1::Verify) -> Call {
    let id = if group == v1::Group::G1 { &world.g1_id } else { &world.g2_id };
    let spec = messages::spec(group as i32, messages::stored(id, 0, 0));
    let spec = v1::MsmSpec { verify: verify as i32, batch: 2, ..spec };
    Call::msm(spec, messages::scalars(v1::ScalarEncoding::U8, vec![3; 16]))
}

fn ntt(verify: v1::Verify) -> Call {
    let spec = v1::NttSpec { verify: verify as i32, batch: 2, ..messages::ntt_spec(3) };
    let elements = messages::canonical(&messages::random(16));
    Call::ntt(spec, messages::scalars(v1::ScalarEncoding::Canonical, elements))
}

fn streamed(world: &World) -> [Call; 2] {
    let spec = v1::MsmSpec { verify: v1::Verify::Full as i32, ..world.spec() };
    let vector = messages::new_vector(v1::ScalarEncoding::U8, 8);
    let msm = messages::msm_stream(spec, vector, vec![messages::chunk(0, vec![1; 8])]);
    let spec = v1::NttSpec { verify: v1::Verify::Probabilistic as i32, ..messages::ntt_spec(1) };
    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, 2);
    let ntt = messages::ntt_stream(
        spec,
        vector,
        vec![messages::chunk(0, messages::canonical(&messages::random(2)))],
    );
    [Call::MsmStream(msm), Call::NttStream(ntt)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_result_is_never_returned() {
    let world = World::new(settings()).await;
    let checked = || {
        let mut all = vec![
            msm(&world, v1::Group::G1, v1::Verify::Full),
            msm(&world, v1::Group::G2, v1::Verify::Full),
            msm(&world, v1::Group::G1, v1::Verify::Probabilistic),
            msm(&world, v1::Group::G2, v1::Verify::Probabilistic),
            ntt(v1::Verify::Full),
            ntt(v1::Verify::Probabilistic),
        ];
        all.extend(streamed(&world));
        all
    };
    for (i, call) in checked().into_iter().enumerate() {
        call.send(&world.channel).await.unwrap_or_else(|status| panic!("honest {i}: {status}"));
    }
    for (i, call) in checked().into_iter().enumerate() {
        world.dial.set(EngineMode::WrongResults);
        let status = call.send(&world.channel).await.expect_err("a wrong result");
        world.dial.set(EngineMode::Honest);
        let name = format!("wrong result {i}");
        assert_status(&name, &status, Code::DataLoss, "VERIFY_FAILED");
        world.assert_healthy(&name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_fails_one_job_and_no_later_one() {
    let world = World::new(settings()).await;
    let mut all = vec![msm(&world, v1::Group::G1, v1::Verify::None), ntt(v1::Verify::None)];
    all.extend(streamed(&world));
    for (i, call) in all.into_iter().enumerate() {
        world.dial.set(EngineMode::Panics);
        let status = call.send(&world.channel).await.expect_err("a panic");
        world.dial.set(EngineMode::Honest);
        let name = format!("panic {i}");
        assert_status(&name, &status, Code::Internal, "INTERNAL");
        let message = "internal error: see the server's log";
        assert_eq!(status.message(), message, "reveals no internals");
        world.assert_healthy(&name).await;
    }
}
