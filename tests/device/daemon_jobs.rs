//! Jobs of a daemon with GPUs: their results, and the engine that they report.

use ark_ec::CurveGroup as _;
use ark_ff::{AdditiveGroup as _, FftField as _, UniformRand as _};
use ark_poly::{EvaluationDomain as _, Radix2EvaluationDomain};
use ark_std::test_rng;
use capstan::{
    client::{
        BasesHandle, Direction, MsmOptions, NttOptions, Order, ScalarInput, Verification,
        blocking::BlockingClient,
    },
    curve::{
        Fr, G1Affine, G2Affine, Group,
        points::{CurvePoint, SumEncoding, decode_sums},
        scalars::{ScalarEncoding, encode_fr},
    },
    wire::v1::{self, compute_client::ComputeClient, msm_stream_request::Message},
};

use crate::{
    daemon::{start, stop},
    shared,
};

/// Bases, and vectors of scalars with at least the 64 scalars from which on MSMs run on the GPU.
pub struct MsmData<A: CurvePoint> {
    pub points: Vec<A>,
    pub scalars: Vec<Fr>,
}

pub const N: usize = 70;
pub const BATCH: usize = 3;

impl<A: CurvePoint> MsmData<A> {
    pub fn new() -> Self {
        let mut rng = test_rng();
        let first = A::Group::rand(&mut rng);
        let walk = std::iter::successors(Some(first), |at| Some(*at + first)).take(N);
        let points = A::Group::normalize_batch(&walk.collect::<Vec<_>>());
        let scalars = (0..N * BATCH).map(|_| Fr::rand(&mut rng)).collect();
        Self { points, scalars }
    }

    fn first_vector(&self) -> &[Fr] {
        &self.scalars[..N]
    }

    /// The right sums of vectors over the first `n` points.
    pub fn sums(&self, scalars: &[Fr], n: usize) -> Vec<A::Group> {
        let sum = |own: &[Fr]| {
            let products = own.iter().zip(&self.points).map(|(scalar, point)| *point * scalar);
            products.fold(A::Group::ZERO, |sum, product| sum + product)
        };
        scalars.chunks(n).map(sum).collect()
    }

    /// MSMs over bases on the server and over bases in the message, with these checks.
    fn check_unary(&self, client: &BlockingClient, checks: &[Verification]) {
        let resident = client.put_bases(&self.points).unwrap();
        let single = self.sums(self.first_vector(), N);
        // The second use of bases has tables.
        for &verify in checks {
            let options = MsmOptions { verify, ..MsmOptions::default() };
            let done = client.msm_with(&resident, self.first_vector(), options.clone()).unwrap();
            assert_eq!((&done.points, done.execution.verified), (&single, verify));
            assert_eq!(done.execution.engine, "cuda", "{}", done.execution.device);
            let done = client.msm_inline_with(&self.points, self.first_vector(), options).unwrap();
            assert_eq!((&done.points, done.execution.verified), (&single, verify));
            assert_eq!(done.execution.engine, "cuda", "{}", done.execution.device);
        }
        self.check_batches(client, &resident, checks);
        self.check_narrow(client, &resident);
        // Too few scalars for the GPU.
        let few = resident.slice(0, 63).unwrap();
        let done = client.msm_with(&few, &self.scalars[..63], MsmOptions::default()).unwrap();
        assert_eq!(done.points, self.sums(&self.scalars[..63], 63));
        assert_eq!(done.execution.engine, "cpu", "{}", done.execution.device);
    }

    pub fn check_batches(
        &self,
        client: &BlockingClient,
        resident: &BasesHandle<A>,
        checks: &[Verification],
    ) {
        let vector = client.put_vector(&self.scalars).unwrap();
        for &verify in checks {
            // Scalars on the server, and scalars in the message.
            let scalars = match verify {
                Verification::Full => ScalarInput::from(&self.scalars),
                _ => ScalarInput::from(vector.id),
            };
            let options = MsmOptions { batch: BATCH as u32, verify, ..MsmOptions::default() };
            let done = client.msm_with(resident, scalars, options).unwrap();
            assert_eq!(done.points, self.sums(&self.scalars, N), "{verify:?}");
            assert_eq!(done.execution.verified, verify);
            assert_eq!(done.execution.engine, "cuda", "{}", done.execution.device);
        }
    }

    pub fn check_narrow(&self, client: &BlockingClient, resident: &BasesHandle<A>) {
        let values: Vec<i16> = (0..N).map(|i| (i as i16 - 35).wrapping_mul(937)).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let scalars = ScalarInput::Bytes { encoding: ScalarEncoding::Signed(2), bytes: &bytes };
        let done = client.msm_with(resident, scalars, MsmOptions::default()).unwrap();
        let values: Vec<Fr> = values.into_iter().map(Fr::from).collect();
        assert_eq!(done.points, self.sums(&values, N));
        assert_eq!(done.execution.engine, "cuda", "{}", done.execution.device);
    }

    /// Streams an MSM's scalars out of order, by hand: the client streams only longer vectors.
    pub fn check_streamed(&self, client: &BlockingClient, address: &str) {
        let id = client.put_bases(&self.points).unwrap().id();
        let mut bytes = vec![0; 32 * N];
        encode_fr(ScalarEncoding::Canonical, self.first_vector(), &mut bytes);
        let stored =
            v1::StoredBases { object_id: id.0.to_vec().into(), offset: 0, length: N as u64 };
        let group = match A::GROUP {
            Group::G1 => v1::Group::G1,
            Group::G2 => v1::Group::G2,
        };
        let spec = v1::MsmSpec {
            group: group.into(),
            bases: Some(v1::msm_spec::Bases::Stored(stored)),
            result_encoding: v1::ResultEncoding::Compressed.into(),
            verify: v1::Verify::None.into(),
            ..v1::MsmSpec::default()
        };
        let scalars = v1::VectorUpload {
            upload_id: vec![7; 16].into(),
            encoding: v1::ScalarEncoding::Canonical.into(),
            count: N as u64,
            streams: 1,
        };
        let header =
            v1::MsmStreamHeader { spec: Some(spec), scalars: Some(scalars), region_scalars: None };
        let chunk = |range: std::ops::Range<usize>| {
            let (offset, data) = (range.start as u64, bytes[range].to_vec().into());
            Message::Chunk(v1::Chunk { offset, data })
        };
        let messages = [Message::Header(header), chunk(999..32 * N), chunk(0..10), chunk(10..999)];
        let messages = messages.map(|message| v1::MsmStreamRequest { message: Some(message) });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let answer = runtime.block_on(async {
            let mut compute = ComputeClient::connect(address.to_owned()).await.unwrap();
            compute.msm_stream(tokio_stream::iter(messages)).await.unwrap().into_inner()
        });
        let result = answer.result.unwrap();
        let sums = decode_sums::<A>(SumEncoding::Compressed, &result.points).unwrap();
        assert_eq!(sums, self.sums(self.first_vector(), N));
        assert_eq!(result.execution.unwrap().engine, "cuda");
    }
}

#[test]
fn msms_run_on_the_gpu() {
    let address = &shared::daemon().target;
    let client = BlockingClient::connect(address).unwrap();
    let msms = MsmData::<G1Affine>::new();
    msms.check_unary(
        &client,
        &[Verification::None, Verification::Full, Verification::Probabilistic],
    );
    msms.check_streamed(&client, address);
}

/// The daemon gets no `--engine` flag.
#[test]
fn a_gpu_is_used_by_default() {
    let (child, address) = start(&[], &[]);
    let client = BlockingClient::connect(address.clone()).unwrap();
    let msms = MsmData::<G2Affine>::new();
    msms.check_unary(&client, &[Verification::Probabilistic]);
    msms.check_streamed(&client, &address);
    check_transforms(&client);
    stop(child);
}

fn reversed(row: &[Fr]) -> Vec<Fr> {
    let lg_n = row.len().ilog2();
    (0..row.len()).map(|i| row[i.reverse_bits() >> (usize::BITS - lg_n)]).collect()
}

fn check_transforms(client: &BlockingClient) {
    let mut rng = test_rng();
    let orders = [Order::Natural, Order::BitReversed];
    for kind in 0..16 {
        let bit = |i: u32| kind >> i & 1;
        // Short rows go in one message, longer ones in a stream.
        let (lg_n, batch) = if kind == 13 { (12, 5) } else { (9, 2) };
        let coset = (bit(0) == 1).then_some(Fr::GENERATOR);
        let direction = [Direction::Forward, Direction::Inverse][bit(1)];
        let [input_order, output_order] = [orders[bit(2)], orders[bit(3)]];
        let verify =
            [Verification::None, Verification::Full, Verification::Probabilistic][kind % 3];
        let domain = Radix2EvaluationDomain::<Fr>::new(1 << lg_n).unwrap();
        let domain = domain.get_coset(coset.unwrap_or(Fr::from(1))).unwrap();
        let ordered = |order, row: &[Fr]| match order {
            Order::Natural => row.to_vec(),
            Order::BitReversed => reversed(row),
        };
        let expected = |row: &[Fr]| {
            let row = ordered(input_order, row);
            let forward = direction == Direction::Forward;
            let done = if forward { domain.fft(&row) } else { domain.ifft(&row) };
            ordered(output_order, &done)
        };
        let mut values: Vec<Fr> = (0..batch << lg_n).map(|_| Fr::rand(&mut rng)).collect();
        let rows: Vec<Fr> = values.chunks(1 << lg_n).flat_map(expected).collect();
        let options = NttOptions {
            direction,
            coset,
            input_order,
            output_order,
            batch: batch as u32,
            verify,
            ..NttOptions::default()
        };
        let report = client.ntt(&mut values, options).unwrap();
        assert!(values == rows, "{direction:?}, {input_order:?} to {output_order:?}, {coset:?}");
        assert_eq!(report.execution.engine, "cuda", "{}", report.execution.device);
        assert_eq!(report.execution.verified, verify);
    }
}
