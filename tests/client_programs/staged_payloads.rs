//! Large payloads of calls that travel through memory which the server shares.

use std::{path::Path, time::Duration};

use ark_ec::VariableBaseMSM;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        BasesHandle, Client, ClientProgram, Fr, G1Affine, G1Projective, MsmOptions, NttOptions,
        NttTransform, ProgramBuilder, ProgramRun, Result, RunOptions, VectorValue, Verification,
    },
    server::ServerSettings,
};

use crate::client_programs::{
    common::{TestServer, points, scalars, serve},
    idle::until_idle,
    sparse_inputs::{sparse_points, sparse_scalars},
};

const N: usize = 1 << 14;
const BYTES: u64 = 32 * N as u64;

/// A server on a Unix socket at `socket`, and the target for clients.
fn local(socket: &Path, settings: ServerSettings) -> (TestServer, String) {
    let target = format!("unix:{}", socket.display());
    (serve(ServerSettings { unix_socket: Some(socket.into()), ..settings }), target)
}

/// Calls with an input and a result of [`BYTES`] bytes, except for the point of an MSM.
struct Calls {
    values: Vec<Fr>,
    transformed: Vec<Fr>,
    scalars: Vec<Fr>,
    sum: G1Projective,
    bases: BasesHandle<G1Affine>,
    program: ClientProgram,
    input: VectorValue,
    output: VectorValue,
}

impl Calls {
    async fn new(client: &Client) -> Self {
        let (values, points) = (scalars(N), sparse_points::<G1Affine>(N, points));
        let transformed = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
        let scalars = sparse_scalars(N, scalars);
        let sum = G1Projective::msm_unchecked(&points, &scalars);
        let bases = client.put_bases(&points).await.unwrap();
        let mut program = ProgramBuilder::new();
        let input = program.input(N as u64).unwrap();
        let output = program.ntt(input, NttTransform::forward()).unwrap();
        let program = program.build().unwrap();
        Self { values, transformed, scalars, sum, bases, program, input, output }
    }

    async fn msm(&self, client: &Client, verify: Verification) -> Result<()> {
        let options = MsmOptions { verify, ..MsmOptions::default() };
        let sum = client.msm_with(&self.bases, &self.scalars, options).await?;
        assert!(sum.points == [self.sum], "{verify:?}");
        Ok(())
    }

    async fn ntt(&self, client: &Client, verify: Verification) -> Result<()> {
        let options = || NttOptions { verify, ..NttOptions::default() };
        let mut values = self.values.clone();
        client.ntt(&mut values, options()).await?;
        assert!(values == self.transformed, "{verify:?}");
        let owned = client.ntt_owned(self.values.clone(), options()).await?;
        assert!(owned.values == self.transformed, "{verify:?}");
        let half = &self.values[..N / 2];
        let padded = client.ntt_padded(half, N.ilog2(), options()).await?;
        let expected = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(half);
        assert!(padded.values == expected, "{verify:?}");
        Ok(())
    }

    async fn run(&self, client: &Client, verify: Verification) -> Result<()> {
        let run = ProgramRun::new(&self.program).input(self.input, &self.values);
        let run = run.send(self.output).send(self.input).keep(self.output);
        let options = RunOptions { verify, ..RunOptions::default() };
        let result = client.run_with(run, options).await?;
        assert!(result.vector(self.output).unwrap() == self.transformed, "{verify:?}");
        assert!(result.vector(self.input).unwrap() == self.values, "{verify:?}");
        client.release_vector(result.kept(self.output)?.id).await
    }

    async fn all(&self, client: &Client, verify: Verification) -> Result<()> {
        self.msm(client, verify).await?;
        self.ntt(client, verify).await?;
        self.run(client, verify).await
    }
}

async fn region_bytes(client: &Client) -> u64 {
    client.info().await.unwrap().load.unwrap().region_bytes
}

/// Sends payloads until the client has opened a region.
async fn open_region(client: &Client) {
    let opened = async {
        while region_bytes(client).await == 0 {
            let mut values = vec![Fr::from(1); N];
            // Refused if the server has no memory for payloads.
            let _refused = client.ntt(&mut values, NttOptions::default()).await;
        }
        // The client may still be mapping it.
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    tokio::time::timeout(Duration::from_secs(30), opened).await.expect("a region is opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_travel_through_shared_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = local(&folder.path().join("socket"), ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    let calls = Calls::new(&client).await;
    calls.msm(&client, Verification::None).await.unwrap();
    assert_eq!(region_bytes(&client).await, 0, "the first payload opens no region");
    open_region(&client).await;
    for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
        calls.all(&client, verify).await.unwrap();
    }
    let all = (0..12).map(|_| calls.all(&client, Verification::None));
    futures_util::future::try_join_all(all).await.unwrap();
    until_idle(&client).await;
    let released = async {
        while region_bytes(&client).await > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), released).await.expect("regions are returned");
    calls.all(&client, Verification::None).await.unwrap();
}

/// Bytes of working memory of an NTT.
async fn working_bytes() -> u64 {
    let server = serve(ServerSettings::default());
    let client = Client::connect(&server.target).await.unwrap();
    let mut program = ProgramBuilder::new();
    let input = program.input(N as u64).unwrap();
    let output = program.ntt(input, NttTransform::forward()).unwrap();
    let program = program.build().unwrap();
    let values = scalars(N);
    let run = ProgramRun::new(&program).input(input, &values).send(output);
    let estimate = client.estimate(&run, Verification::None).await.unwrap();
    estimate.value_bytes + estimate.scratch_bytes
}

/// The bytes in flight are too few for payloads, but enough for working memory.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_in_shared_memory_count_as_regions_only() {
    let folder = tempfile::tempdir().unwrap();
    let bytes_in_flight_max = working_bytes().await + BYTES;
    let connection_bytes_in_flight_max = bytes_in_flight_max;
    let settings = ServerSettings {
        bytes_in_flight_max,
        connection_bytes_in_flight_max,
        ..ServerSettings::default()
    };
    let (_server, target) = local(&folder.path().join("socket"), settings);
    let client = Client::connect(&target).await.unwrap();
    let ntt = async |client: &Client| {
        let mut values = scalars(N);
        let expected = Radix2EvaluationDomain::<Fr>::new(N).unwrap().fft(&values);
        client.ntt(&mut values, NttOptions::default()).await?;
        assert!(values == expected);
        Ok::<_, capstan::client::ClientError>(())
    };
    assert!(ntt(&client).await.is_err());
    open_region(&client).await;
    for _ in 0..10 {
        ntt(&client).await.unwrap();
    }
    let in_messages = Client::builder(&target).shared_memory(false).connect().await.unwrap();
    for _ in 0..5 {
        assert!(ntt(&in_messages).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_travel_in_messages_after_the_server_has_lost_its_regions() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let (server, target) = local(&socket, ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    open_region(&client).await;
    server.stop();
    let (_server, _) = local(&socket, ServerSettings::default());
    let calls = Calls::new(&client).await;
    for _ in 0..4 {
        calls.all(&client, Verification::None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_cancelled_calls_do_not_spoil_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = local(&folder.path().join("socket"), ServerSettings::default());
    let client = Client::connect(&target).await.unwrap();
    let calls = Calls::new(&client).await;
    open_region(&client).await;
    for round in 0..20 {
        let cancelled = calls.all(&client, Verification::None);
        let limit = Duration::from_millis(2 * round);
        if let Ok(early) = tokio::time::timeout(limit, cancelled).await {
            early.unwrap();
        }
        let bytes = vec![0xff; 32 * N];
        let scalars = capstan::client::ScalarInput::Bytes {
            encoding: capstan::client::ScalarEncoding::Canonical,
            bytes: &bytes,
        };
        let refused = client.msm(&calls.bases, scalars).await.unwrap_err();
        assert_eq!(refused.index(), Some(0), "{refused}");
        calls.all(&client, Verification::None).await.unwrap();
    }
    until_idle(&client).await;
}
