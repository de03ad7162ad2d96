//! Clients that misuse uploads in memory that the server shares with them.

use std::time::Duration;

use capstan::{
    curve::G1Affine,
    server::ServerSettings,
    wire::v1::{self, ScalarEncoding},
};
use tokio::time::timeout;
use tonic::{Code, Status};

use super::regions::{LocalWorld, REGION};
use crate::{
    daemon::{
        TEST_TIMEOUT, compute, messages,
        programs::{self, call, input, region_upload, send},
        reason,
        regions::{self, TestRegion},
    },
    table::settings,
};

const LG_N: u32 = 10;
const N: u64 = 1 << LG_N;
const BYTES: u64 = 32 * N;

fn ntt_header(region: &TestRegion) -> v1::NttStreamHeader {
    v1::NttStreamHeader {
        spec: Some(messages::ntt_spec(LG_N)),
        input: None,
        region_input: Some(region.upload(0, N)),
        region_output: Some(region.place(BYTES)),
    }
}

async fn refused(world: &LocalWorld, request: Vec<v1::NttStreamRequest>) -> Status {
    let request = tokio_stream::iter(request);
    let mut compute = compute(&world.channel);
    let answer = compute.ntt_stream(request);
    match timeout(TEST_TIMEOUT, answer).await.expect("an answer") {
        Err(refused) => refused,
        Ok(answer) => answer.into_inner().message().await.expect_err("refused"),
    }
}

fn check(refused: &Status, code: Code, expected: &str, field: &str) {
    let found = (refused.code(), reason(refused));
    assert_eq!(found, (code, expected.to_owned()), "{field}: {refused}");
    assert!(refused.message().starts_with(field), "{field}: {refused}");
}

/// What a header is refused with: the code, the reason and the beginning of the message.
type Refused = (Code, &'static str, &'static str);

fn wrong_headers(region: &TestRegion) -> Vec<(v1::NttStreamHeader, Refused)> {
    let header = || ntt_header(region);
    let upload = |offset, count| Some(region.upload(offset, count));
    let forged = bytes::Bytes::from_static(&[7; 16]);
    let invalid = Code::InvalidArgument;
    vec![
        (
            v1::NttStreamHeader { region_input: None, ..header() },
            (invalid, "MISSING", "header.input"),
        ),
        (
            v1::NttStreamHeader {
                input: Some(messages::new_vector(ScalarEncoding::Canonical, N)),
                ..header()
            },
            (invalid, "OUT_OF_RANGE", "header.input"),
        ),
        (
            v1::NttStreamHeader {
                region_input: Some(v1::RegionUpload {
                    region_id: forged.clone(),
                    ..region.upload(0, N)
                }),
                ..header()
            },
            (Code::NotFound, "OBJECT_UNKNOWN", "region_id"),
        ),
        (
            v1::NttStreamHeader {
                region_output: Some(v1::RegionPlace { region_id: forged, offset: 0 }),
                ..header()
            },
            (Code::NotFound, "OBJECT_UNKNOWN", "region_id"),
        ),
        (
            v1::NttStreamHeader { region_input: upload(REGION - BYTES + 1, N), ..header() },
            (invalid, "SIZE_TOO_LARGE", "offset"),
        ),
        (
            v1::NttStreamHeader { region_input: upload(u64::MAX, N), ..header() },
            (invalid, "SIZE_TOO_LARGE", "offset"),
        ),
        (
            v1::NttStreamHeader { region_input: upload(0, u64::MAX), ..header() },
            (invalid, "SIZE_TOO_LARGE", "count"),
        ),
        (
            v1::NttStreamHeader { region_input: upload(0, N - 1), ..header() },
            (invalid, "LENGTH_MISMATCH", "input"),
        ),
        (
            v1::NttStreamHeader { region_output: Some(region.place(BYTES - 1)), ..header() },
            (invalid, "OUT_OF_RANGE", "region_output.offset"),
        ),
        (
            v1::NttStreamHeader { region_output: Some(region.place(REGION - 32)), ..header() },
            (invalid, "SIZE_TOO_LARGE", "offset"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_name_wrong_places_are_refused() {
    let world = LocalWorld::new().await;
    let region = world.region().await;
    let header = || ntt_header(&region);
    let invalid = Code::InvalidArgument;
    for (header, (code, reason, field)) in wrong_headers(&region) {
        let refused = refused(&world, regions::ntt(header, &[(0, BYTES)])).await;
        check(&refused, code, reason, field);
    }
    let inputs = vec![region_upload(region.upload(REGION, 1))];
    let refused = world.refused(call([input(1, 1)], inputs, vec![send(0)])).await;
    check(&refused, invalid, "SIZE_TOO_LARGE", "inputs[0].region_upload.offset");
    let remote = world.server.channel().await;
    let request = tokio_stream::iter(regions::ntt(header(), &[(0, BYTES)]));
    let refused = compute(&remote).ntt_stream(request).await.expect_err("refused");
    assert_eq!((refused.code(), &*reason(&refused)), (Code::PermissionDenied, "LOCAL_ONLY"));
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_the_wrong_kind_or_place_are_refused() {
    use v1::ntt_stream_request::Message;
    let world = LocalWorld::new().await;
    let region = world.region().await;
    for (offset, length) in [(BYTES, 1), (0, BYTES + 1), (u64::MAX, 2), (1, u64::MAX)] {
        let request = regions::ntt(ntt_header(&region), &[(offset, length)]);
        check(&refused(&world, request).await, Code::InvalidArgument, "SIZE_TOO_LARGE", "written");
    }
    let mut chunk = regions::ntt(ntt_header(&region), &[]);
    let data = vec![0; 32];
    chunk.push(v1::NttStreamRequest { message: Some(Message::Chunk(messages::chunk(0, data))) });
    let refused_chunk = refused(&world, chunk).await;
    check(&refused_chunk, Code::InvalidArgument, "OUT_OF_RANGE", "message.chunk");
    let vector = messages::new_vector(ScalarEncoding::Canonical, N);
    let mut range = messages::ntt_stream(messages::ntt_spec(LG_N), vector, vec![]);
    let written = Message::Written(regions::written_range(0, BYTES));
    range.push(v1::NttStreamRequest { message: Some(written) });
    let refused_range = refused(&world, range).await;
    check(&refused_range, Code::InvalidArgument, "OUT_OF_RANGE", "message.written");
    // One byte in two, so that ranges cannot be joined.
    let fragments: Vec<_> = (0..BYTES / 2).map(|index| (2 * index, 1)).collect();
    let refused_fragments = refused(&world, regions::ntt(ntt_header(&region), &fragments)).await;
    check(&refused_fragments, Code::InvalidArgument, "OUT_OF_RANGE", "written.offset");
    // All but one byte, and the end of the stream.
    let request = regions::ntt(ntt_header(&region), &[(0, BYTES - 1)]);
    check(&refused(&world, request).await, Code::InvalidArgument, "LENGTH_MISMATCH", "chunk");
    for piece in [programs::written(1, 0, 32), programs::written(0, 0, 33)] {
        let inputs = vec![region_upload(region.upload(0, 1))];
        let header = call([input(1, 1)], inputs, vec![send(0)]);
        let run = programs::run(header, vec![piece]);
        let refused = programs::send_run(&world.channel, run).await.expect_err("refused");
        assert!(refused.message().starts_with("written"), "{refused}");
    }
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elements_that_are_not_canonical_are_refused_by_index() {
    let world = LocalWorld::new().await;
    let mut region = world.region().await;
    region.put(0, &vec![0; BYTES as usize]);
    region.put(32 * 77, &[0xff; 32]);
    let refused = refused(&world, regions::ntt(ntt_header(&region), &[(0, BYTES)])).await;
    check(&refused, Code::InvalidArgument, "NOT_CANONICAL", "input[77]");
    world.assert_healthy().await;
}

/// The upload ends with its stream, and does not keep the region.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_announces_nothing_or_leaves_keeps_no_memory() {
    let idle_timeout = Duration::from_millis(300);
    let settings = ServerSettings { idle_timeout, ..settings() };
    let world = LocalWorld::with(settings).await;
    let points = messages::points::<G1Affine>(N as usize);
    for is_cancelled in [false, true] {
        let region = world.region().await;
        let spec = messages::spec(messages::group::<G1Affine>(), messages::inline(&points));
        let region_scalars = Some(region.upload(0, N));
        let header = v1::MsmStreamHeader { spec: Some(spec), scalars: None, region_scalars };
        let messages = tokio_stream::iter(regions::msm(header, &[(0, BYTES / 2)]));
        let request = tokio_stream::StreamExt::chain(messages, tokio_stream::pending());
        let mut compute = compute(&world.channel);
        let call = compute.msm_stream(request);
        if is_cancelled {
            assert!(timeout(Duration::from_millis(50), call).await.is_err(), "waits for the rest");
        } else {
            let refused = timeout(TEST_TIMEOUT, call).await.expect("ends").expect_err("refused");
            assert_eq!(refused.code(), Code::DeadlineExceeded, "{refused}");
        }
        drop(region);
        world.until_no_regions().await;
    }
    world.assert_healthy().await;
}
