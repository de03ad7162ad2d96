//! Clients that misuse memory that the server shares with them.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use capstan::{
    client::Client,
    curve::Fr,
    region::{self, SharedMemory},
    server::ServerSettings,
    wire::v1::{self, ScalarEncoding, Verify},
};
use futures_util::future::join_all;
use tempfile::TempDir;
use tonic::{Code, Status, transport::Channel};

use crate::{
    daemon::{
        TestServer, messages,
        programs::{self, call, in_region, inline, input, ntt, pointwise, run, send, to_region},
        reason,
        regions::{self, TestRegion, ask, map, mapped, open},
        unix_channel, until_idle, until_load,
    },
    resources::ResourceCheck,
    table::settings,
};

const LG_N: u32 = 12;
const N: u64 = 1 << LG_N;
pub const REGION: u64 = 2 << 20;

pub struct LocalWorld {
    pub server: TestServer,
    _folder: TempDir,
    socket: PathBuf,
    pub channel: Channel,
    /// Dropped last.
    resources: ResourceCheck,
}

impl LocalWorld {
    pub async fn new() -> Self {
        Self::with(settings()).await
    }

    pub async fn with(settings: ServerSettings) -> Self {
        Self::with_regions(3, settings).await
    }

    async fn with_regions(regions: u64, settings: ServerSettings) -> Self {
        let resources = ResourceCheck::begin(&settings).await;
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("capstan.sock");
        let server = TestServer::start(ServerSettings {
            unix_socket: Some(socket.clone()),
            region_bytes_max: regions * REGION,
            ..settings
        });
        let channel = unix_channel(&socket).await;
        Self { server, _folder: folder, socket, channel, resources }
    }

    pub async fn region(&self) -> TestRegion {
        mapped(&self.channel, &self.socket, REGION).await
    }

    pub async fn refused(&self, header: v1::RunHeader) -> Status {
        programs::send_run(&self.channel, run(header, vec![])).await.expect_err("refused")
    }

    pub async fn until_no_regions(&self) {
        until_load(&self.channel, "its memory is free", |load| load.region_bytes == 0).await;
    }

    /// The server computes for others, nothing is in flight, and memory and descriptors stayed
    /// within bounds.
    pub async fn assert_healthy(&self) {
        let a = messages::random(4);
        let header = call([input(1, 4)], vec![inline(&a)], vec![send(0)]);
        let answer = programs::send_run(&self.channel, run(header, vec![])).await.expect("healthy");
        assert!(answer.vectors[&0][..] == messages::canonical(&a)[..]);
        until_idle(&self.channel, "nothing is left").await;
        self.resources.assert_within("memory that a client shares");
    }
}

async fn client(socket: &Path) -> Client {
    let target = format!("unix:{}", socket.display());
    Client::builder(target).connections(1).connect().await.expect("a server")
}

fn canonical(region: &TestRegion, offset: u64) -> v1::RegionVector {
    region.vector(offset, ScalarEncoding::Canonical)
}

/// Transforms a vector in a region into another place of it.
fn transform(region: &TestRegion, from: u64, to: u64, verify: Verify) -> v1::RunHeader {
    let inputs = vec![in_region(canonical(region, from))];
    let outputs = vec![to_region(1, canonical(region, to))];
    let mut header = call([input(1, N), ntt(0, LG_N)], inputs, outputs);
    header.verify = verify as i32;
    header
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regions_are_for_clients_on_the_host() {
    let world = LocalWorld::new().await;
    let region = world.region().await;
    let remote = world.server.channel().await;
    let refused = regions::open(&remote, 1).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::PermissionDenied, "LOCAL_ONLY"));
    let header = transform(&region, 0, 0, Verify::None);
    let refused = programs::send_run(&remote, run(header, vec![])).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::PermissionDenied, "LOCAL_ONLY"));
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_right_token_gets_a_descriptor_once() {
    let world = LocalWorld::new().await;
    let [opened, other] =
        [open(&world.channel, 1).await.unwrap(), open(&world.channel, 1).await.unwrap()];
    let (id, token) = (&opened.region_id[..], &opened.token[..]);
    let mut forged = token.to_vec();
    forged[15] ^= 1;
    for request in [
        [id, &forged].concat(),
        [id, &other.token].concat(),
        [&[0; 16], token].concat(),
        [token, id].concat(),
        vec![0; 32],
    ] {
        let refused = ask(&world.socket, &request).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnexpectedEof, "{request:?}");
    }
    // A region that is not mapped is not known to calls.
    let vector = v1::RegionVector { region_id: opened.region_id.clone(), ..Default::default() };
    let vector = v1::RegionVector { encoding: ScalarEncoding::Canonical as i32, ..vector };
    let header = call([input(1, 1)], vec![in_region(vector)], vec![send(0)]);
    assert_eq!(reason(&world.refused(header).await), "OBJECT_UNKNOWN");
    let region = map(&world.socket, &opened).unwrap();
    assert!(map(&world.socket, &opened).is_err(), "a token was used twice");
    drop(region);
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_outside_a_region_are_refused() {
    let world = LocalWorld::new().await;
    let region = world.region().await;
    let end = REGION - 32 * N;
    for offset in [end + 1, REGION - 1, REGION, u64::MAX - 31, u64::MAX] {
        for (from, to, field) in
            [(offset, 0, "inputs[0].region.offset"), (0, offset, "outputs[0].region.offset")]
        {
            let refused = world.refused(transform(&region, from, to, Verify::None)).await;
            let found = (refused.code(), reason(&refused));
            assert_eq!(found, (Code::InvalidArgument, "SIZE_TOO_LARGE".to_owned()));
            assert!(refused.message().starts_with(field), "{refused}");
        }
    }
    let inputs = vec![in_region(canonical(&region, 0))];
    let header = call([input(1, 1 << 20)], inputs, vec![send(0)]);
    assert_eq!(reason(&world.refused(header).await), "LENGTH_MISMATCH");
    for bytes in [0, 3 * REGION, u64::MAX] {
        let refused = open(&world.channel, bytes).await.unwrap_err();
        let expected = if bytes == 0 { "SIZE_ZERO" } else { "REGIONS" };
        assert_eq!(reason(&refused), expected, "{bytes}");
    }
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_that_overlap_are_refused() {
    let world = LocalWorld::new().await;
    let (region, other) = (world.region().await, world.region().await);
    let multiply = v1::PointwiseOperation::Multiply;
    let steps = || [input(1, N), ntt(0, LG_N), pointwise(multiply, &[0, 1])];
    let inputs = || vec![in_region(canonical(&region, 0))];
    let refused = [
        // A later step reads the input; two outputs.
        (vec![to_region(1, canonical(&region, 32 * N - 1)), send(2)], "outputs[0].region.offset"),
        (vec![to_region(0, canonical(&region, 0)), send(2)], "outputs[0].region.offset"),
        (
            vec![to_region(1, canonical(&other, 0)), to_region(2, canonical(&other, 31))],
            "outputs[1].region.offset",
        ),
    ];
    for (outputs, field) in refused {
        let refused = world.refused(call(steps(), inputs(), outputs)).await;
        assert_eq!(reason(&refused), "OUT_OF_RANGE");
        assert!(refused.message().starts_with(field), "{refused}");
    }
    let narrow = other.vector(0, ScalarEncoding::U32);
    let refused = world.refused(call(steps(), inputs(), vec![to_region(2, narrow)])).await;
    assert!(refused.message().starts_with("outputs[0].region.encoding"), "{refused}");
    let points = other.vector(0, ScalarEncoding::Unspecified);
    let refused = world.refused(call(steps(), vec![in_region(points)], vec![send(2)])).await;
    assert!(refused.message().starts_with("inputs[0].region.encoding"), "{refused}");
    // The last step may overwrite the input.
    let allowed = vec![to_region(2, canonical(&region, 5)), to_region(1, canonical(&other, 0))];
    let allowed = call(steps(), inputs(), allowed);
    programs::send_run(&world.channel, run(allowed, vec![])).await.expect("runs");
    world.assert_healthy().await;
}

/// A call sees old and new bytes, some of which are not canonical; it never reports a wrong result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_writes_during_its_call_harms_no_one() {
    let world = LocalWorld::new().await;
    let region = world.region().await;
    let written = SharedMemory::map(region.file.try_clone().unwrap(), REGION as usize).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = thread::spawn(move || {
        for round in (0..0x80_u8).cycle() {
            // Bytes up to 0x73 make canonical elements.
            written.write(0, &[round; 32 * N as usize]);
            if stopped.load(Ordering::Acquire) {
                return;
            }
        }
    });
    for call in 0..60 {
        let verify = [Verify::None, Verify::Probabilistic, Verify::Full][call % 3];
        let messages = run(transform(&region, 0, 32 * N, verify), vec![]);
        if let Err(refused) = programs::send_run(&world.channel, messages).await {
            assert_eq!(reason(&refused), "NOT_CANONICAL", "{refused}");
        }
    }
    stop.store(true, Ordering::Release);
    writer.join().unwrap();
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_dies_leaves_no_memory() {
    let world = LocalWorld::new().await;
    for _ in 0..5 {
        let region = world.region().await;
        let header = transform(&region, 0, 32 * N, Verify::Full);
        let (channel, messages) = (world.channel.clone(), run(header, vec![]));
        let call = tokio::spawn(async move { programs::send_run(&channel, messages).await });
        drop(region);
        // The call found the region, or did not.
        if let Err(status) = call.await.unwrap() {
            assert_eq!(reason(&status), "OBJECT_UNKNOWN");
        }
        world.until_no_regions().await;
    }
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_keeps_all_regions_leaves_other_calls_alone() {
    let world = LocalWorld::new().await;
    let kept = [world.region().await, world.region().await, world.region().await];
    let refused = open(&world.channel, 1).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "REGIONS"));
    world.assert_healthy().await;
    // More bytes than the protocol has end the region, too.
    (&kept[0].connection).write_all(&[7; 100]).unwrap();
    until_load(&world.channel, "its memory is free", |load| load.region_bytes == 2 * REGION).await;
    let ended = (&kept[0].connection).read(&mut [0]);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let (a, region) = (Fr::from(7), world.region().await);
    let header = call([input(1, 1)], vec![inline(&[a])], vec![to_region(0, canonical(&region, 9))]);
    programs::send_run(&world.channel, run(header, vec![])).await.expect("runs");
    assert!(region.bytes(9, 32) == messages::canonical(&[a])[..]);
}

/// A connection takes a place until it has sent its token, for a second at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_its_memory_while_others_keep_all_places_busy() {
    const SILENT: usize = 300;
    let mut world = LocalWorld::new().await;
    // On both ends.
    world.resources.descriptors_max += 2 * SILENT;
    let client = client(&world.socket).await;
    let socket = region::socket_path(&world.socket);
    let silent: Vec<_> = (0..SILENT).map(|_| UnixStream::connect(&socket)).collect();
    let vector = client.alloc_vector(1000).await.expect("memory");
    assert!(vector.is_shared(), "the client asks again");
    drop((vector, silent, client));
    world.until_no_regions().await;
    world.assert_healthy().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_get_memory_at_once() {
    const CLIENTS: u64 = 40;
    let mut world = LocalWorld::with_regions(CLIENTS, settings()).await;
    // The connection of a client, that of its region and the region's memory, on both ends.
    world.resources.descriptors_max += 6 * CLIENTS as usize;
    let socket = &world.socket;
    let shared = join_all((0..CLIENTS).map(async |_| {
        let client = client(socket).await;
        let vector = client.alloc_vector(1000).await.expect("memory");
        assert!(vector.is_shared());
        (client, vector)
    }));
    drop(shared.await);
    world.until_no_regions().await;
    world.assert_healthy().await;
}
