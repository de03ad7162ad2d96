//! Vectors that programs keep on the server under ids that the client chose.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1,
};
use tonic::{Code, transport::Channel};

use super::program_steps::{put_bases, transform};
use crate::service::daemon::{
    TestServer, compute, messages,
    programs::{self, RunAnswer},
    reason, store, until_idle, until_load,
};

const LG_N: u32 = 3;
const N: usize = 1 << LG_N;

async fn run(channel: &Channel, header: v1::RunHeader) -> RunAnswer {
    programs::send_run(channel, programs::run(header, vec![])).await.expect("runs")
}

/// A call that keeps multiples of `elements`.
fn keep_multiples(elements: &[Fr], factor: Fr, id: &Bytes) -> v1::RunHeader {
    let steps =
        [programs::input(1, elements.len() as u64), programs::linear_combination(&[0], &[factor])];
    programs::call(steps, vec![programs::inline(elements)], vec![programs::keep(1, id)])
}

async fn read(channel: &Channel, id: &Bytes) -> Vec<u8> {
    let id = Some(v1::get_request::Id::UploadId(id.clone()));
    let request = v1::GetRequest { id, ..v1::GetRequest::default() };
    let mut chunks = store(channel).get(request).await.expect("a vector").into_inner();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.message().await.expect("a chunk") {
        all.extend_from_slice(&chunk.chunk.expect("a chunk").data);
    }
    all
}

async fn release(channel: &Channel, id: &Bytes) {
    let id = Some(v1::release_request::Id::UploadId(id.clone()));
    store(channel).release(v1::ReleaseRequest { id }).await.expect("is on the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_vector_is_the_input_of_other_calls() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let (a, factor, id) = (messages::random(N), Fr::from(3), messages::id());
    let multiples: Vec<_> = a.iter().map(|element| factor * element).collect();
    let answer = run(&channel, keep_multiples(&a, factor, &id)).await;
    assert!(answer.vectors.is_empty() && answer.result.points == [Bytes::new()]);
    assert!(read(&channel, &id).await == messages::canonical(&multiples));
    until_load(&channel, "only the vector is left", |load| {
        load.jobs == 0 && load.bytes_in_flight == 32 * N as u64
    })
    .await;
    // By another program,
    let steps = [programs::input(1, 2), programs::evaluate(0, Fr::from(1))];
    let header = programs::call(steps, vec![programs::stored(&id, 1)], vec![programs::send(1)]);
    let sum = run(&channel, header).await;
    assert!(sum.vectors[&0] == messages::canonical(&[multiples[1] + multiples[2]]));
    // by an NTT,
    let input = Some(v1::ntt_request::Input::UploadId(id.clone()));
    let request = v1::NttRequest { spec: Some(messages::ntt_spec(LG_N)), input, keep: false };
    let answer = compute(&channel).ntt(request).await.unwrap().into_inner();
    let Some(v1::ntt_response::Output::Rows(rows)) = answer.output else { panic!("no rows") };
    assert!(rows.data == messages::canonical(&transform(&multiples, Fr::from(1))));
    // and by an MSM.
    let bases = messages::points::<G1Affine>(N);
    let bases_id = put_bases(&channel, &bases).await;
    let spec = messages::spec(v1::Group::G1 as i32, messages::stored(&bases_id, 0, 0));
    let answer = compute(&channel).msm(messages::msm_on(spec, &id)).await.unwrap().into_inner();
    let sum = messages::compressed::<G1Affine>(messages::sum(&bases, &multiples));
    assert_eq!(answer.result.unwrap().points, sum);
    release(&channel, &id).await;
    until_idle(&channel, "a kept vector").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_of_the_same_shape_is_replaced() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let (a, id) = (messages::random(N), messages::id());
    for factor in [2, 3] {
        run(&channel, keep_multiples(&a, Fr::from(factor), &id)).await;
        let multiples: Vec<_> = a.iter().map(|element| Fr::from(factor) * element).collect();
        assert!(read(&channel, &id).await == messages::canonical(&multiples), "{factor}");
    }
    until_load(&channel, "one vector is left", |load| load.bytes_in_flight == 32 * N as u64).await;
    // Another number of elements.
    let header = keep_multiples(&a[1..], Fr::from(1), &id);
    let refused = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Aborted, "UPLOAD_CONFLICT"));
    until_load(&channel, "a refused call", |load| load.bytes_in_flight == 32 * N as u64).await;
    release(&channel, &id).await;
    until_idle(&channel, "a replaced vector").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_fails_keeps_nothing() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let (a, id) = (messages::random(N), messages::id());
    // The first output is computed before the second input is refused.
    let steps = [programs::input(1, N as u64), programs::pad(0, 16), programs::input(1, 1)];
    let inputs = vec![programs::inline(&a), programs::inline_bytes(vec![0xff; 32])];
    let outputs = vec![programs::keep(1, &id), programs::send(2)];
    let header = programs::call(steps, inputs, outputs);
    let refused = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_CANONICAL", "{refused}");
    let id = Some(v1::stat_request::Id::UploadId(id));
    let unknown = store(&channel).stat(v1::StatRequest { id }).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    until_idle(&channel, "a failed run").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_read_parts_of_vectors() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let (a, id) = (messages::random(3 * N), messages::id());
    run(&channel, keep_multiples(&a, Fr::from(1), &id)).await;
    let part = |offset| v1::StoredVector { upload_id: id.clone(), offset };
    let bases = messages::points::<G1Affine>(N);
    let spec = messages::spec(v1::Group::G1 as i32, messages::inline(&bases));
    let msm = |batch, offset| v1::MsmRequest {
        spec: Some(v1::MsmSpec { batch, ..spec.clone() }),
        scalars: Some(v1::msm_request::Scalars::Stored(part(offset))),
    };
    let answer = compute(&channel).msm(msm(2, 5)).await.unwrap().into_inner();
    let sums = [&a[5..][..N], &a[5 + N..][..N]]
        .map(|scalars| messages::compressed::<G1Affine>(messages::sum(&bases, scalars)));
    assert_eq!(answer.result.unwrap().points, sums.concat());
    let ntt = |batch, offset| v1::NttRequest {
        spec: Some(v1::NttSpec { batch, ..messages::ntt_spec(LG_N) }),
        input: Some(v1::ntt_request::Input::Stored(part(offset))),
        keep: false,
    };
    let answer = compute(&channel).ntt(ntt(1, 7)).await.unwrap().into_inner();
    let Some(v1::ntt_response::Output::Rows(rows)) = answer.output else { panic!("no rows") };
    assert!(rows.data == messages::canonical(&transform(&a[7..][..N], Fr::from(1))));
    for (batch, offset, refusal) in [(2, 9, "SIZE_TOO_LARGE"), (4, 0, "LENGTH_MISMATCH")] {
        let msm = compute(&channel).msm(msm(batch, offset)).await.map(|_| ());
        let ntt = compute(&channel).ntt(ntt(batch, offset)).await.map(|_| ());
        for refused in [msm, ntt] {
            let status = refused.expect_err("is beyond the end");
            assert_eq!((status.code(), reason(&status)), (Code::InvalidArgument, refusal.into()));
        }
    }
    release(&channel, &id).await;
    until_idle(&channel, "a vector").await;
}
