//! Memory that a daemon with GPUs shares with a client.

use std::{path::Path, time::Duration};

use ark_ec::{CurveGroup as _, VariableBaseMSM as _};
use ark_ff::UniformRand as _;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{
        NttTransform, ProgramBuilder, ProgramRun, RunOptions, Verification,
        blocking::BlockingClient,
    },
    curve::{Fr, G1Projective},
    wire::v1::{self, ntt_stream_response::Message},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::{
    daemon::{start, stop},
    shared, wire,
};

const N: usize = 1 << 8;

#[test]
fn programs_on_the_gpu_read_and_write_shared_vectors() {
    programs_read_and_write_shared_vectors(&shared::daemon().socket);
}

#[test]
fn programs_without_workers_read_and_write_shared_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capstan.sock");
    let path = socket.to_str().unwrap();
    let flags = ["--engine", "cuda", "--unix-socket", path, "--gpu-isolation", "none"];
    let (child, _) = start(&flags, &[]);
    programs_read_and_write_shared_vectors(&socket);
    stop(child);
}

fn programs_read_and_write_shared_vectors(socket: &Path) {
    let client = BlockingClient::connect(format!("unix:{}", socket.display())).unwrap();
    let mut rng = StdRng::seed_from_u64(3);
    let points: Vec<_> = (0..N).map(|_| G1Projective::rand(&mut rng)).collect();
    let points = G1Projective::normalize_batch(&points);
    let bases = client.put_bases(&points).unwrap();
    let values: Vec<_> = (0..N).map(|_| Fr::rand(&mut rng)).collect();
    let transformed = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
    let sum = G1Projective::msm(&points, &values).unwrap();

    let mut program = ProgramBuilder::new();
    let input = program.input(N as u64).unwrap();
    let output = program.ntt(input, NttTransform::forward()).unwrap();
    let transform = program.build().unwrap();
    let mut program = ProgramBuilder::new();
    let scalars = program.input(N as u64).unwrap();
    let sums = program.msm(&bases, scalars).unwrap();
    let msm = program.build().unwrap();
    // Each vector is pinned, and unpinned when it is dropped.
    for verify in [Verification::None, Verification::Probabilistic, Verification::None] {
        let options = || RunOptions { verify, ..RunOptions::default() };
        let mut vector = client.alloc_vector(N).unwrap();
        assert!(vector.is_shared());
        vector.copy_from_slice(&values);
        let run = ProgramRun::new(&msm).input(scalars, &vector).send_points(sums);
        let result = client.run_with(run, options()).unwrap();
        assert_eq!(result.points(sums).unwrap(), [sum]);
        assert_eq!(result.execution.engine, "cuda");
        let run = ProgramRun::new(&transform).in_place(input, output, vector);
        let mut result = client.run_with(run, options()).unwrap();
        assert_eq!(result.execution.engine, "cuda");
        assert!(*result.take_vector(output).unwrap().to_vec() == transformed, "{verify:?}");
    }
}

/// With a check, the job reads a copy, which must not be made before the client has written.
#[test]
fn checked_transforms_on_the_gpu_read_nothing_before_it_is_announced() {
    const LG_N: u32 = N.ilog2();
    let socket = &shared::daemon().socket;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let channel = wire::unix_channel(socket).await;
        let mut region = wire::regions::mapped(&channel, socket, 1).await;
        let bytes = 32 * N as u64;
        for verify in [v1::Verify::Probabilistic, v1::Verify::Full, v1::Verify::None] {
            // Not canonical.
            region.put(0, &[0xff; 32 * N]);
            let output_encoding = v1::ScalarEncoding::Canonical as i32;
            let spec = wire::messages::ntt_spec(LG_N);
            let header = v1::NttStreamHeader {
                spec: Some(v1::NttSpec { verify: verify as i32, output_encoding, ..spec }),
                input: None,
                region_input: Some(region.upload(0, N as u64)),
                region_output: Some(region.place(bytes)),
            };
            let mut request = wire::regions::ntt(header, &[(0, bytes)]);
            let (sender, messages) = tokio::sync::mpsc::unbounded_channel();
            let announcement = request.pop().unwrap();
            sender.send(request.pop().unwrap()).unwrap();
            let mut compute = wire::compute(&channel);
            let call = tokio::spawn(async move {
                compute.ntt_stream(UnboundedReceiverStream::new(messages)).await
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            let values = wire::messages::random(N);
            region.put(0, &wire::messages::canonical(&values));
            sender.send(announcement).unwrap();
            let mut answer = call.await.unwrap().expect("no error").into_inner();
            let message = answer.message().await.unwrap().unwrap().message;
            let Some(Message::Result(result)) = message else { panic!("no result: {message:?}") };
            assert_eq!(result.execution.unwrap().engine, "cuda");
            let transformed = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
            let transformed = wire::messages::canonical(&transformed);
            assert!(region.bytes(32 * N, 32 * N) == transformed[..], "{verify:?}");
        }
    });
}
