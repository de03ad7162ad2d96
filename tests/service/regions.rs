//! Memory that the server shares with clients on its host.

use std::path::PathBuf;

use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine},
    server::{Engines, ServerSettings},
    wire::v1::{self, ScalarEncoding, Verify},
};
use tempfile::TempDir;
use tonic::{Code, transport::Channel};

use super::program_steps::{put_bases, transform};
use crate::service::daemon::{
    TestServer,
    faulty_engine::faulty_engines,
    load, messages,
    programs::{self, RunAnswer},
    reason,
    regions::{self, TestRegion},
    unix_channel, until_idle, until_load,
};

const LG_N: u32 = 3;
const N: usize = 1 << LG_N;
const REGION: u64 = 2 << 20;

/// A server on a Unix socket.
pub struct LocalServer {
    _server: TestServer,
    _folder: TempDir,
    pub socket: PathBuf,
    pub channel: Channel,
}

impl LocalServer {
    pub async fn new(settings: ServerSettings) -> Self {
        Self::with_engines(settings, Engines::cpu(2, "asked for").unwrap()).await
    }

    pub async fn with_engines(settings: ServerSettings, engines: Engines) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("capstan.sock");
        let settings = ServerSettings { unix_socket: Some(socket.clone()), ..settings };
        let server = TestServer::with_engines(settings, engines);
        let channel = unix_channel(&socket).await;
        Self { _server: server, _folder: folder, socket, channel }
    }

    pub async fn region(&self) -> TestRegion {
        regions::mapped(&self.channel, &self.socket, REGION).await
    }

    pub async fn run(&self, header: v1::RunHeader) -> RunAnswer {
        let run = programs::run(header, vec![]);
        programs::send_run(&self.channel, run).await.expect("runs")
    }
}

fn canonical(region: &TestRegion, offset: u64) -> v1::RegionVector {
    region.vector(offset, ScalarEncoding::Canonical)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_read_and_write_regions_with_every_check() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let mut region = server.region().await;
    let a = messages::random(N);
    let transformed = messages::canonical(&transform(&a, Fr::from(1)));
    let steps = || [programs::input(1, N as u64), programs::ntt(0, LG_N)];
    for verify in [Verify::None, Verify::Probabilistic, Verify::Full] {
        // The output is next to the input, at an odd place, over the input, and far from it.
        for (from, to) in [(0, 256), (3, 777), (512, 512), (REGION - 256, 5)] {
            region.put(from as usize, &messages::canonical(&a));
            let inputs = vec![programs::in_region(canonical(&region, from))];
            let outputs = vec![programs::to_region(1, canonical(&region, to))];
            let mut header = programs::call(steps(), inputs, outputs);
            header.verify = verify as i32;
            let answer = server.run(header).await;
            assert!(answer.vectors.is_empty() && answer.result.points == [Bytes::new()]);
            assert_eq!(answer.result.execution.unwrap().verified, verify as i32);
            let written = region.bytes(to as usize, 32 * N);
            assert!(written == transformed[..], "{verify:?}: {from} to {to}");
        }
    }
    until_idle(&server.channel, "nothing is left").await;
}

/// Rows are transformed and written one by one, over rows that are still to be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_may_be_written_over_later_rows_of_the_input() {
    let engines = faulty_engines().0;
    let server = LocalServer::with_engines(ServerSettings::default(), engines).await;
    let mut region = server.region().await;
    const ROWS: usize = 4;
    for (length, from, to) in [(N, 0, 0), (N, 0, 32), (N, 0, 32 * N as u64), (N - 3, 7, 7)] {
        let a = messages::random(ROWS * length);
        let padded = |row: &[Fr]| [row, &vec![Fr::from(0); N - length]].concat();
        let rows = a.chunks(length).map(|row| transform(&padded(row), Fr::from(1)));
        let transformed = messages::canonical(&rows.collect::<Vec<_>>().concat());
        region.put(from as usize, &messages::canonical(&a));
        let steps = [programs::input(ROWS as u32, length as u64), programs::ntt(0, LG_N)];
        let inputs = vec![programs::in_region(canonical(&region, from))];
        let outputs = vec![programs::to_region(1, canonical(&region, to))];
        server.run(programs::call(steps, inputs, outputs)).await;
        let written = region.bytes(to as usize, 32 * ROWS * N);
        assert!(written == transformed[..], "rows of {length}: {from} to {to}");
    }
    until_idle(&server.channel, "nothing is left").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn msms_read_narrow_scalars_in_a_region() {
    let server = LocalServer::new(ServerSettings::default()).await;
    let (points, mut region) = (messages::points::<G1Affine>(N), server.region().await);
    let object_id = put_bases(&server.channel, &points).await;
    let scalars: Vec<i16> = (0..N as i16).map(|i| 1000 * i - 3000).collect();
    region.put(40, &scalars.iter().flat_map(|scalar| scalar.to_le_bytes()).collect::<Vec<_>>());
    let sum = messages::sum(&points, &scalars.iter().map(|s| Fr::from(*s)).collect::<Vec<_>>());
    for verify in [Verify::None, Verify::Probabilistic, Verify::Full] {
        let steps = [programs::input(1, N as u64), programs::msm::<G1Affine>(0, &object_id, 0)];
        let input = programs::in_region(region.vector(40, ScalarEncoding::I16));
        let mut header = programs::call(steps, vec![input], vec![programs::points(1)]);
        header.verify = verify as i32;
        let answer = server.run(header).await;
        assert!(answer.result.points == [messages::compressed::<G1Affine>(sum)], "{verify:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_region_ends_with_its_connection() {
    let settings = ServerSettings { region_bytes_max: 2 * REGION, ..ServerSettings::default() };
    let server = LocalServer::new(settings).await;
    let (first, second) = (server.region().await, server.region().await);
    assert_eq!(load(&server.channel).await.region_bytes, 2 * REGION);
    let id = first.id.clone();
    drop(first);
    until_load(&server.channel, "its memory is free", |load| load.region_bytes == REGION).await;
    let gone = v1::RegionVector { region_id: id, ..canonical(&second, 0) };
    let inputs = vec![programs::in_region(gone)];
    let header = programs::call([programs::input(1, 1)], inputs, vec![programs::send(0)]);
    let refused = programs::send_run(&server.channel, programs::run(header, vec![])).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::NotFound, "OBJECT_UNKNOWN"));
    assert!(refused.message().starts_with("inputs[0].region.region_id: "), "{refused}");
    let third = regions::mapped(&server.channel, &server.socket, 1).await;
    assert_eq!(third.memory.size() as u64, REGION);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_shared_memory_opens_no_region() {
    let settings = ServerSettings { region_bytes_max: 0, ..ServerSettings::default() };
    let server = LocalServer::new(settings).await;
    let refused = regions::open(&server.channel, 1).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "REGIONS"));
    assert!(!capstan::region::socket_path(&server.socket).exists());
}
