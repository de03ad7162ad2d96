//! Clients that misuse memory that they share with a daemon with workers, and workers that are lost
//! while they use it.

use std::{
    path::PathBuf,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use capstan::{
    client::{
        ClientError, NttTransform, ProgramBuilder, ProgramRun, RunOptions, blocking::BlockingClient,
    },
    region::SharedMemory,
    wire::v1::{self, ScalarEncoding, Verify},
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::{
    daemon::{start, stop},
    faulty_daemon::FaultyDaemon,
    wire::{
        programs::{call, in_region, input, ntt, run, send_run, to_region},
        reason,
        regions::{TestRegion, mapped},
        unix_channel, until_load,
    },
    workers::{Expected, N, workers},
};

const LG_N: u32 = N.ilog2();
/// The bytes of a vector.
pub const BYTES: usize = 32 * N;

/// A daemon with one worker, and a connection to its Unix socket.
pub struct LocalDaemon {
    pub child: Child,
    pub socket: PathBuf,
    pub channel: Channel,
    _folder: TempDir,
}

impl LocalDaemon {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("capstan.sock");
        let path = socket.to_str().unwrap();
        let flags = ["--engine", "cuda", "--cuda-devices", "0", "--unix-socket", path];
        let (child, _) = start(&flags, &[]);
        Self { child, channel: unix_channel(&socket).await, socket, _folder: folder }
    }

    pub async fn region(&self) -> TestRegion {
        mapped(&self.channel, &self.socket, 2 * BYTES as u64).await
    }

    async fn assert_healthy(&self, expected: &Expected) {
        self.transform_in(self.region().await, expected).await;
    }

    /// The GPU transforms a vector of a region, which is then given back.
    pub async fn transform_in(&self, mut region: TestRegion, expected: &Expected) {
        region.put(0, &crate::wire::messages::canonical(&expected.scalars));
        let request = run(transform(&region, Verify::None), vec![]);
        let answer = send_run(&self.channel, request).await.unwrap();
        assert_eq!(answer.result.execution.unwrap().engine, "cuda");
        let transformed = crate::wire::messages::canonical(&expected.transformed);
        assert!(region.bytes(BYTES, BYTES) == transformed[..], "a wrong transform");
        drop(region);
        let is_free = |load: &v1::Load| load.region_bytes == 0;
        until_load(&self.channel, "its memory is free", is_free).await;
    }
}

/// Transforms the vector at the beginning of a region to the place behind it.
fn transform(region: &TestRegion, verify: Verify) -> v1::RunHeader {
    let vector = |offset| region.vector(offset, ScalarEncoding::Canonical);
    let inputs = vec![in_region(vector(0))];
    let outputs = vec![to_region(1, vector(BYTES as u64))];
    let header = call([input(1, N as u64), ntt(0, LG_N)], inputs, outputs);
    v1::RunHeader { verify: verify.into(), ..header }
}

/// A call sees old and new bytes, some of which are not canonical. The worker serves on.
#[test]
fn a_client_that_writes_during_its_call_on_a_gpu_harms_no_one() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let daemon = LocalDaemon::start().await;
        let before = workers(&daemon.child);
        let region = daemon.region().await;
        let file = region.file.try_clone().unwrap();
        let written = SharedMemory::map(file, region.memory.size()).unwrap();
        let stop_writing = Arc::new(AtomicBool::new(false));
        let is_over = stop_writing.clone();
        let writer = thread::spawn(move || {
            // Bytes up to 0x73 make canonical elements.
            let rounds = (0..0x80_u8).cycle().take_while(|_| !is_over.load(Ordering::Acquire));
            rounds.for_each(|round| written.write(0, &vec![round; BYTES]));
        });
        for call in 0..30 {
            let verify = [Verify::None, Verify::Probabilistic, Verify::Full][call % 3];
            let request = run(transform(&region, verify), vec![]);
            if let Err(refused) = send_run(&daemon.channel, request).await {
                assert_eq!(reason(&refused), "NOT_CANONICAL", "{refused}");
            }
        }
        stop_writing.store(true, Ordering::Release);
        writer.join().unwrap();
        drop(region);
        daemon.assert_healthy(&Expected::new()).await;
        assert_eq!(workers(&daemon.child), before, "the worker was lost");
        stop(daemon.child);
    });
}

/// The client unmaps the region and closes the connection that keeps it, as the end of its process
/// does. The channel of its call stays open.
#[test]
fn a_region_that_is_closed_during_a_call_on_a_gpu_leaves_no_memory() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let daemon = LocalDaemon::start().await;
        let before = workers(&daemon.child);
        for _ in 0..5 {
            let region = daemon.region().await;
            let request = run(transform(&region, Verify::Full), vec![]);
            let channel = daemon.channel.clone();
            let call = tokio::spawn(async move { send_run(&channel, request).await });
            drop(region);
            // The call found the region, or did not.
            if let Err(status) = call.await.unwrap() {
                assert_eq!(reason(&status), "OBJECT_UNKNOWN");
            }
        }
        daemon.assert_healthy(&Expected::new()).await;
        assert_eq!(workers(&daemon.child), before, "the worker was lost");
        stop(daemon.child);
    });
}

/// The worker may have overwritten the input, so that the call cannot begin again.
#[test]
fn a_call_that_overwrites_its_input_is_refused_if_its_worker_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock").display().to_string();
    let Some(daemon) = FaultyDaemon::start(&["--unix-socket", &socket]) else { return };
    // It repeats what may be repeated.
    let client = BlockingClient::connect(format!("unix:{socket}")).unwrap();
    let expected = Expected::new();
    let mut program = ProgramBuilder::new();
    let given = program.input(N as u64).unwrap();
    let output = program.ntt(given, NttTransform::forward()).unwrap();
    let program = program.build().unwrap();
    let vector = || {
        let mut vector = client.alloc_vector(N).unwrap();
        assert!(vector.is_shared());
        vector.copy_from_slice(&expected.scalars);
        vector
    };
    let in_place = || {
        let run = ProgramRun::new(&program).in_place(given, output, vector());
        client.run_with(run, RunOptions::default())
    };
    // The GPU is lost when it has begun to write.
    daemon.plan("copy@0:2:700");
    let Err(ClientError::Refused(refusal)) = in_place() else { panic!("it was repeated") };
    assert_eq!(refusal.reason_text, "DEVICE_LOST");
    daemon.wait_for_logged(&["overwrites its inputs", "device=0"], 1);
    daemon.wait_for_both_gpus(1);
    // Another place can be written again.
    daemon.plan("copy@0:2:700");
    let source = vector();
    let run = ProgramRun::new(&program).input(given, &source).write_to(output, vector());
    let mut result = client.run_with(run, RunOptions::default()).unwrap();
    assert!(*result.take_vector(output).unwrap().to_vec() == expected.transformed);
    assert_eq!(daemon.metric("capstan_repeated_runs_total"), 1);
    let mut result = in_place().unwrap();
    assert!(*result.take_vector(output).unwrap().to_vec() == expected.transformed);
    drop((client, source));
    stop(daemon.child);
}
