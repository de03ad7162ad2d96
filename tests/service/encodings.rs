//! MSMs in every encoding of scalars, points and results, in batches and over slices of bases.

use ark_ff::{BigInteger, PrimeField};
use bytes::Bytes;
use capstan::{
    curve::{
        Fr, G1Affine, G2Affine,
        layout::fr_as_bytes,
        points::{CurvePoint, PointEncoding, SumEncoding, decode_sums, encode},
    },
    server::ServerSettings,
    wire::v1,
};
use futures_util::stream;
use tonic::transport::Channel;

use crate::service::daemon::{TestServer, compute, messages, store, until_idle};

const N: usize = 5;
const BATCH: usize = 3;

/// Scalars in every encoding: the encoding, the bytes, the values.
fn vectors() -> Vec<(v1::ScalarEncoding, Bytes, Vec<Fr>)> {
    use v1::ScalarEncoding as Wire;
    let values = messages::random(N * BATCH);
    let mut all = vec![
        (Wire::Canonical, messages::canonical(&values), values.clone()),
        (Wire::Montgomery, Bytes::copy_from_slice(fr_as_bytes(&values)), values.clone()),
    ];
    let narrow = [
        (Wire::U8, Wire::I8, 1),
        (Wire::U16, Wire::I16, 2),
        (Wire::U32, Wire::I32, 4),
        (Wire::U64, Wire::I64, 8),
        (Wire::U128, Wire::I128, 16),
    ];
    for (unsigned, signed, width) in narrow {
        let mut bytes: Vec<u8> =
            values.iter().flat_map(|v| v.into_bigint().to_bytes_le()[..width].to_vec()).collect();
        // The extremes: all ones is the maximum, or -1; the sign bit alone is the minimum.
        bytes[..width].fill(0xff);
        bytes[width..2 * width].fill(0);
        bytes[2 * width - 1] = 0x80;
        let unsigned_values =
            bytes.chunks(width).map(Fr::from_le_bytes_mod_order).collect::<Vec<_>>();
        let top = Fr::from(2).pow_u(8 * width as u64);
        let signed_values = bytes
            .chunks(width)
            .zip(&unsigned_values)
            .map(|(bytes, value)| if bytes[width - 1] & 0x80 == 0 { *value } else { *value - top });
        let signed_values = signed_values.collect();
        all.push((signed, bytes.clone().into(), signed_values));
        all.push((unsigned, bytes.into(), unsigned_values));
    }
    all
}

trait PowU64 {
    fn pow_u(self, exponent: u64) -> Self;
}

impl PowU64 for Fr {
    fn pow_u(self, exponent: u64) -> Self {
        ark_ff::Field::pow(&self, [exponent])
    }
}

const RESULTS: [(v1::ResultEncoding, SumEncoding); 3] = [
    (v1::ResultEncoding::Compressed, SumEncoding::Compressed),
    (v1::ResultEncoding::Uncompressed, SumEncoding::Uncompressed),
    (v1::ResultEncoding::Projective, SumEncoding::Projective),
];

/// The points inline in every encoding, and as a slice of stored bases.
async fn sources<A: CurvePoint>(channel: &Channel, points: &[A]) -> Vec<v1::msm_spec::Bases> {
    let answer = store(channel).put(stream::iter(messages::put_points(points))).await.unwrap();
    let Some(v1::object::Kind::Bases(stored)) = answer.into_inner().object.unwrap().kind else {
        panic!("not bases");
    };
    let slice = &points[2..2 + N];
    [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery]
        .map(|encoding| messages::inline_bytes(encoding, encode(encoding, slice)))
        .into_iter()
        .chain([messages::stored(&stored.object_id, 2, N as u64)])
        .collect()
}

async fn every_encoding_equals_arkworks<A: CurvePoint>() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let mut points = messages::points::<A>(N + 4);
    points[3] = A::zero();
    let sources = sources(&channel, &points).await;
    for (i, (encoding, bytes, values)) in vectors().into_iter().enumerate() {
        let expected: Vec<A::Group> =
            values.chunks(N).map(|values| messages::sum(&points[2..2 + N], values)).collect();
        for (j, source) in sources.iter().enumerate() {
            // Every pair of scalars and points; the result encodings alternate.
            let (wire, result_encoding) = RESULTS[(i + j) % RESULTS.len()];
            let verify = if j == 0 { v1::Verify::Full } else { v1::Verify::None };
            let spec = v1::MsmSpec {
                batch: BATCH as u32,
                result_encoding: wire as i32,
                verify: verify as i32,
                ..messages::spec(messages::group::<A>(), source.clone())
            };
            let name = format!("{encoding:?}, source {j}, {result_encoding:?}");
            let unary = messages::msm(spec.clone(), messages::scalars(encoding, bytes.clone()));
            let answer = compute(&channel).msm(unary).await;
            let result = answer.unwrap_or_else(|status| panic!("{name}: {status}")).into_inner();
            assert_result::<A>(&name, result.result.unwrap(), verify, result_encoding, &expected);
            let vector = messages::new_vector(encoding, (N * BATCH) as u64);
            let cut = bytes.len() / 2 + 1;
            let chunks = vec![
                messages::chunk(cut as u64, bytes.slice(cut..)),
                messages::chunk(0, bytes.slice(..cut)),
            ];
            let messages = messages::msm_stream(spec, vector, chunks);
            let answer = compute(&channel).msm_stream(stream::iter(messages)).await;
            let result = answer.unwrap_or_else(|status| panic!("{name}: {status}")).into_inner();
            assert_result::<A>(&name, result.result.unwrap(), verify, result_encoding, &expected);
        }
    }
    until_idle(&channel, "encodings").await;
}

fn assert_result<A: CurvePoint>(
    name: &str,
    result: v1::MsmResult,
    verify: v1::Verify,
    encoding: SumEncoding,
    expected: &[A::Group],
) {
    let sums = decode_sums::<A>(encoding, &result.points).expect("points");
    assert_eq!(sums, expected, "{name}");
    let execution = result.execution.expect("always set");
    assert_eq!((&*execution.engine, execution.verified), ("cpu", verify as i32), "{name}");
    assert!(result.timing.expect("always set").compute_us > 0, "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_encoding_of_a_g1_msm_equals_arkworks() {
    every_encoding_equals_arkworks::<G1Affine>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_encoding_of_a_g2_msm_equals_arkworks() {
    every_encoding_equals_arkworks::<G2Affine>().await;
}
