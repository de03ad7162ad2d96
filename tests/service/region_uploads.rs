//! Vectors that a client writes to a region while its call receives them.

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::ServerSettings,
    wire::v1::{self, Verify, ntt_stream_response::Message},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::{
    program_steps::{put_bases, transform},
    regions::LocalServer,
};
use crate::service::daemon::{
    TEST_TIMEOUT, compute, messages,
    programs::{self, region_upload},
    regions::{self, TestRegion},
    until_idle,
};

const LG_N: u32 = 8;
const N: usize = 1 << LG_N;
const BYTES: u64 = 32 * N as u64;

fn ntt_header(region: &TestRegion, from: u64, to: u64, verify: Verify) -> v1::NttStreamHeader {
    let output_encoding = v1::ScalarEncoding::Canonical as i32;
    let spec = messages::ntt_spec(LG_N);
    v1::NttStreamHeader {
        spec: Some(v1::NttSpec { verify: verify as i32, output_encoding, ..spec }),
        input: None,
        region_input: Some(region.upload(from, N as u64)),
        region_output: Some(region.place(to)),
    }
}

/// The only message of an NTT whose rows are written to a region.
async fn result(answer: tonic::Streaming<v1::NttStreamResponse>) -> v1::NttResult {
    let mut answer = answer;
    let first = answer.message().await.unwrap().expect("a message").message;
    let Some(Message::Result(result)) = first else { panic!("expected a result: {first:?}") };
    assert!(answer.message().await.unwrap().is_none());
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ntts_read_and_write_regions_with_every_check() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let mut region = server.region().await;
    let a = messages::random(N);
    let transformed = messages::canonical(&transform(&a, Fr::from(1)));
    for verify in [Verify::None, Verify::Probabilistic, Verify::Full] {
        for (from, to) in [(0, BYTES), (BYTES + 3, 3), (777, 3 * BYTES)] {
            region.put(from as usize, &messages::canonical(&a));
            let header = ntt_header(&region, from, to, verify);
            // The second half first; some bytes twice.
            let parts = [(BYTES / 2, BYTES / 2), (0, 40), (32, BYTES / 2)];
            let request = tokio_stream::iter(regions::ntt(header, &parts));
            let answer = compute(&server.channel).ntt_stream(request).await.expect("no error");
            let result = result(answer.into_inner()).await;
            assert_eq!(result.execution.unwrap().verified, verify as i32);
            assert!(region.bytes(to as usize, BYTES as usize) == transformed[..], "{verify:?}");
        }
    }
    until_idle(&server.channel, "nothing is left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_a_region_can_be_sent_and_rows_in_chunks_written_to_one() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let mut region = server.region().await;
    let a = messages::random(N);
    let (elements, transformed) =
        (messages::canonical(&a), messages::canonical(&transform(&a, Fr::from(1))));
    region.put(0, &elements);
    let header = ntt_header(&region, 0, BYTES, Verify::None);
    let sent = v1::NttStreamHeader { region_output: None, ..header.clone() };
    let request = tokio_stream::iter(regions::ntt(sent, &[(0, BYTES)]));
    let mut answer = compute(&server.channel).ntt_stream(request).await.unwrap().into_inner();
    let first = answer.message().await.unwrap().and_then(|message| message.message);
    assert!(matches!(first, Some(Message::Chunk(chunk)) if chunk.data == transformed));

    let vector = messages::new_vector(v1::ScalarEncoding::Canonical, N as u64);
    let chunks = vec![messages::chunk(0, elements)];
    let mut request = messages::ntt_stream(header.spec.unwrap(), vector, chunks);
    if let Some(v1::ntt_stream_request::Message::Header(written)) = &mut request[0].message {
        written.region_output = header.region_output;
    }
    let request = tokio_stream::iter(request);
    let answer = compute(&server.channel).ntt_stream(request).await.expect("no error");
    result(answer.into_inner()).await;
    assert!(region.bytes(BYTES as usize, BYTES as usize) == transformed[..]);
}

/// The job reads nothing that has not been announced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scalars_are_read_once_they_are_announced() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let (points, mut region) = (messages::points::<G1Affine>(N), server.region().await);
    let object_id = put_bases(&server.channel, &points).await;
    let scalars = messages::random(N);
    let (bytes, half) = (messages::canonical(&scalars), BYTES as usize / 2);
    let sum = messages::compressed::<G1Affine>(messages::sum(&points, &scalars));
    for verify in [Verify::None, Verify::Probabilistic, Verify::Full] {
        // Not canonical.
        region.put(0, &[0xff; BYTES as usize]);
        let bases = messages::stored(&object_id, 0, 0);
        let spec = messages::spec(messages::group::<G1Affine>(), bases);
        let header = v1::MsmStreamHeader {
            spec: Some(v1::MsmSpec { verify: verify as i32, ..spec }),
            scalars: None,
            region_scalars: Some(region.upload(0, N as u64)),
        };
        let (sender, messages) = mpsc::unbounded_channel();
        let mut compute = compute(&server.channel);
        let call = tokio::spawn(async move {
            compute.msm_stream(UnboundedReceiverStream::new(messages)).await
        });
        let mut request = regions::msm(header, &[(0, half as u64), (half as u64, half as u64)]);
        let (last, first) = (request.pop().unwrap(), request.pop().unwrap());
        sender.send(request.pop().unwrap()).unwrap();
        region.put(0, &bytes[..half]);
        sender.send(first).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        region.put(half, &bytes[half..]);
        sender.send(last).unwrap();
        drop(sender);
        let answer = timeout(TEST_TIMEOUT, call).await.expect("ends").unwrap().expect("no error");
        let result = answer.into_inner().result.unwrap();
        assert!(result.points == sum, "{verify:?}");
        assert_eq!(result.execution.unwrap().verified, verify as i32);
    }
    until_idle(&server.channel, "nothing is left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_receive_some_inputs_in_regions_and_others_in_chunks() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let mut region = server.region().await;
    let (a, b) = (messages::random(N), messages::random(N));
    let product: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a * b).collect();
    region.put(9, &messages::canonical(&a));
    for verify in [Verify::None, Verify::Full] {
        let multiply = v1::PointwiseOperation::Multiply;
        let steps = [
            programs::input(1, N as u64),
            programs::input(1, N as u64),
            programs::pointwise(multiply, &[0, 1]),
        ];
        let inputs =
            vec![region_upload(region.upload(9, N as u64)), programs::new_upload(N as u64)];
        let to = region.vector(9, v1::ScalarEncoding::Canonical);
        let outputs = vec![programs::send(0), programs::to_region(2, to)];
        let mut header = programs::call(steps, inputs, outputs);
        header.verify = verify as i32;
        let pieces = vec![
            programs::written(0, 0, BYTES - 5),
            programs::chunk(1, 0, messages::canonical(&b)),
            programs::written(0, BYTES - 5, 5),
        ];
        let run = programs::run(header, pieces);
        let answer = programs::send_run(&server.channel, run).await.expect("runs");
        assert!(answer.vectors[&0][..] == messages::canonical(&a)[..]);
        assert!(region.bytes(9, BYTES as usize) == messages::canonical(&product)[..]);
        region.put(9, &messages::canonical(&a));
        assert_eq!(answer.result.points, [Bytes::new(), Bytes::new()]);
    }
    until_idle(&server.channel, "nothing is left").await;
}

/// The check reads a copy, which is made once all inputs have arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_programs_copy_no_element_before_it_is_announced() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let mut region = server.region().await;
    let (a, b) = (messages::random(N), messages::random(N));
    let sums: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a + *b).collect();
    for verify in [Verify::Probabilistic, Verify::Full] {
        // Not canonical.
        region.put(BYTES as usize, &[0xff; BYTES as usize]);
        region.put(0, &messages::canonical(&a));
        let steps = [
            programs::input(1, N as u64),
            programs::input(1, N as u64),
            programs::pointwise(v1::PointwiseOperation::Add, &[0, 1]),
        ];
        let uploads = [region.upload(0, N as u64), region.upload(BYTES, N as u64)];
        let inputs = uploads.map(region_upload).to_vec();
        let mut header = programs::call(steps, inputs, vec![programs::send(2)]);
        header.verify = verify as i32;
        let (sender, requests) = mpsc::unbounded_channel();
        let mut compute = compute(&server.channel);
        let call =
            tokio::spawn(async move { compute.run(UnboundedReceiverStream::new(requests)).await });
        for request in programs::run(header, vec![programs::written(0, 0, BYTES)]) {
            sender.send(request).unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        region.put(BYTES as usize, &messages::canonical(&b));
        sender.send(programs::written(1, 0, BYTES)).unwrap();
        drop(sender);
        let answer = timeout(TEST_TIMEOUT, call).await.expect("ends").unwrap().expect("no error");
        let answer = programs::read_answer(answer.into_inner()).await.expect("runs");
        assert!(answer.vectors[&0][..] == messages::canonical(&sums)[..], "{verify:?}");
    }
    until_idle(&server.channel, "nothing is left").await;
}
