//! The client against a server in this process: every kind of call agrees with arkworks.

use crate::{example_support as common, idle, proxy, sparse_inputs, tls_files};
use ark_bls12_381::G1Projective;
use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_ff::{Field, One, PrimeField, Zero};
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use capstan::{
    client::{
        BasesHandle, Client, ClientError, Code, CurvePoint, Direction, Fr, G1Affine, G2Affine,
        Group, MsmOptions, NttOptions, Order, PointEncoding, PutOptions, Reason, ScalarEncoding,
        ScalarInput, SumEncoding, Verification, blocking,
    },
    server::ServerSettings,
};
use common::{points, scalars, serve, server};
use idle::until_idle;
use proxy::with_broken_connections;
use sparse_inputs::{sparse_points, sparse_scalars};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tls_files::CertifiedFiles;

/// A timeout that only a hang reaches.
const HANGING: Duration = Duration::from_secs(60);

fn oracle<A: CurvePoint>(points: &[A], scalars: &[Fr]) -> A::Group {
    A::Group::msm_unchecked(points, scalars)
}

async fn msm_equals_arkworks<A: CurvePoint>(n: usize) {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (points, scalars) = (points::<A>(n), scalars(n));
    let bases = client.put_bases(&points).await.unwrap();
    assert_eq!(bases.len(), n as u64);
    let sum = oracle(&points, &scalars);
    assert_eq!(client.msm(&bases, &scalars).await.unwrap(), sum);
    assert_eq!(client.msm(&bases, scalars.clone()).await.unwrap(), sum, "owned");
    let shared: Arc<[Fr]> = scalars.clone().into();
    assert_eq!(client.msm(&bases, shared).await.unwrap(), sum, "shared");
    let middle = bases.slice(1, n as u64 - 2).unwrap();
    let expected = oracle(&points[1..n - 1], &scalars[1..n - 1]);
    assert_eq!(client.msm(&middle, &scalars[1..n - 1]).await.unwrap(), expected, "slice");
    let vector = client.put_vector(&scalars).await.unwrap();
    assert_eq!(client.msm(&bases, vector.id).await.unwrap(), sum, "vector");
    let part = ScalarInput::UploadFrom { id: vector.id, first: 1 };
    assert_eq!(client.msm(&middle, part).await.unwrap(), expected, "part of a vector");
    client.release_vector(vector.id).await.unwrap();
    let gone = client.msm(&bases, vector.id).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn small_msms_equal_arkworks() {
    msm_equals_arkworks::<G1Affine>(100).await;
    msm_equals_arkworks::<G2Affine>(10).await;
}

/// 4 MiB of scalars are uploaded over two lanes.
#[tokio::test(flavor = "multi_thread")]
async fn striped_msms_equal_arkworks() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (points, scalars) = (points::<G1Affine>(1 << 12), sparse_scalars(1 << 17, scalars));
    let expected: Vec<_> = scalars.chunks(1 << 12).map(|row| oracle(&points, row)).collect();
    let bases = client.put_bases(&points).await.unwrap();
    let options = MsmOptions { batch: 32, ..MsmOptions::default() };
    let msm = client.msm_with(&bases, &scalars, options.clone()).await.unwrap();
    assert!(msm.points == expected, "borrowed");
    let msm = client.msm_with(&bases, scalars.clone(), options.clone()).await.unwrap();
    assert!(msm.points == expected, "owned");
    let vector = client.put_vector(&scalars).await.unwrap();
    let msm = client.msm_with(&bases, vector.id, options).await.unwrap();
    assert!(msm.points == expected, "vector");
    assert!(
        *client.get_vector(&vector).await.unwrap()
            == *capstan::curve::layout::fr_as_bytes(&scalars)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_msm_is_the_point_at_infinity() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let bases = client.put_bases(&points::<G1Affine>(3)).await.unwrap();
    let empty = bases.slice(3, 0).unwrap();
    assert!(client.msm(&empty, &[]).await.unwrap().is_zero());
    assert!(client.msm_inline::<G2Affine>(&[], &[]).await.unwrap().is_zero());
}

#[tokio::test(flavor = "multi_thread")]
async fn batched_and_verified_results_agree_in_every_encoding() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (points, scalars) = (points::<G2Affine>(20), scalars(60));
    let expected: Vec<_> = scalars.chunks(20).map(|row| oracle(&points, row)).collect();
    let bases = client.put_bases(&points).await.unwrap();
    for result_encoding in
        [SumEncoding::Compressed, SumEncoding::Uncompressed, SumEncoding::Projective]
    {
        let options = MsmOptions {
            batch: 3,
            verify: Verification::Full,
            result_encoding,
            ..MsmOptions::default()
        };
        let msm = client.msm_with(&bases, &scalars, options.clone()).await.unwrap();
        assert_eq!(msm.points, expected, "{result_encoding:?}");
        assert_eq!(msm.execution.verified, Verification::Full);
        assert!(!msm.execution.engine.is_empty());
        let inline = client.msm_inline_with(&points, &scalars, options).await.unwrap();
        assert_eq!(inline.points, expected, "{result_encoding:?} inline");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_scalar_encoding_is_decoded_correctly() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let points = points::<G1Affine>(4);
    let bases = client.put_bases(&points).await.unwrap();
    for width in [1, 2, 4, 8, 16] {
        let mut bytes = vec![0; 4 * usize::from(width)];
        bytes[0] = 3;
        bytes[2 * usize::from(width) - 1] = 0x80; // 2^(bits-1), or its negative
        let top = Fr::from(2).pow([8 * u64::from(width) - 1]);
        for (encoding, second) in
            [(ScalarEncoding::Unsigned(width), top), (ScalarEncoding::Signed(width), -top)]
        {
            let input = ScalarInput::Bytes { encoding, bytes: &bytes };
            let expected = oracle(&points[..2], &[Fr::from(3), second]);
            let verify = Verification::Probabilistic;
            let options = MsmOptions { batch: 2, verify, ..MsmOptions::default() };
            let two = bases.slice(0, 2).unwrap();
            let msm = client.msm_with(&two, input, options).await.unwrap();
            assert_eq!(msm.points, [expected, G1Projective::zero()], "{encoding:?}");
            assert_eq!(msm.execution.verified, verify);
        }
    }
    let encoding = ScalarEncoding::Canonical;
    let values = scalars(4);
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| ark_ff::BigInteger::to_bytes_le(&value.into_bigint()))
        .collect();
    let input = ScalarInput::Shared { encoding, bytes: bytes.into() };
    assert_eq!(client.msm(&bases, input).await.unwrap(), oracle(&points, &values));
    let all_ones = [0xff; 128];
    let input = ScalarInput::Bytes { encoding, bytes: &all_ones };
    let error = client.msm(&bases, input.clone()).await.unwrap_err();
    assert_eq!((error.reason_text(), error.index()), ("NOT_CANONICAL", Some(0)), "{error}");
    let reduce = MsmOptions { reduce: true, ..MsmOptions::default() };
    let value = Fr::from_le_bytes_mod_order(&all_ones[..32]);
    let sum = client.msm_with(&bases, input, reduce).await.unwrap().points;
    assert_eq!(sum, [oracle(&points, &[value; 4])]);
}

async fn ntt_equals_arkworks(client: &Client, lg_n: u32, batch: u32) {
    let n = 1 << lg_n;
    let values = scalars(n * batch as usize);
    let g = Fr::from(7);
    for coset in [None, Some(g)] {
        let domain = Radix2EvaluationDomain::<Fr>::new(n).unwrap();
        let domain = domain.get_coset(coset.unwrap_or(Fr::one())).unwrap();
        let expected: Vec<Fr> = values.chunks(n).flat_map(|row| domain.fft(row)).collect();
        let mut rows = values.clone();
        let options = NttOptions { coset, batch, ..NttOptions::forward() };
        let report = client.ntt(&mut rows, options.clone()).await.unwrap();
        assert!(rows == expected, "2^{lg_n} forward, coset {coset:?}");
        assert!(!report.execution.engine.is_empty());
        let owned = client.ntt_owned(values.clone(), options.clone()).await.unwrap();
        assert!(owned.values == expected, "2^{lg_n} owned, coset {coset:?}");
        let options = NttOptions { direction: Direction::Inverse, ..options };
        client.ntt(&mut rows, options).await.unwrap();
        assert!(rows == values, "2^{lg_n} back, coset {coset:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ntts_equal_arkworks_unary_streamed_and_striped() {
    let server = server();
    let client = Client::builder(&server.target).connections(2).connect().await.unwrap();
    ntt_equals_arkworks(&client, 0, 1).await;
    ntt_equals_arkworks(&client, 8, 3).await; // one message
    ntt_equals_arkworks(&client, 16, 2).await; // one stream: 4 MiB
    ntt_equals_arkworks(&client, 18, 1).await; // striped: 8 MiB
    let single = Client::builder(&server.target).connections(1).connect().await.unwrap();
    ntt_equals_arkworks(&single, 18, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ntts_honor_the_requested_order_and_padding() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let values = scalars(8);
    let mut natural = values.clone();
    client.ntt(&mut natural, NttOptions::forward()).await.unwrap();
    let mut reversed = values.clone();
    let options = NttOptions { output_order: Order::BitReversed, ..NttOptions::forward() };
    client.ntt(&mut reversed, options).await.unwrap();
    let order = [0, 4, 2, 6, 1, 5, 3, 7];
    assert_eq!(reversed, order.map(|i| natural[i]));
    let mut padded = values[..6].to_vec();
    padded.splice(3..3, [Fr::zero()]);
    padded.push(Fr::zero());
    let options =
        NttOptions { batch: 2, verify: Verification::Probabilistic, ..NttOptions::forward() };
    client.ntt(&mut padded, options.clone()).await.unwrap();
    let filled = client.ntt_padded(&values[..6], 2, options).await.unwrap();
    assert_eq!(filled.values, padded);
    assert_eq!(filled.report.execution.verified, Verification::Probabilistic);
}

#[tokio::test(flavor = "multi_thread")]
async fn bases_are_named_by_content_and_can_be_read_back() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let points = points::<G1Affine>(1 << 13); // 768 KiB, in several chunks
    let options = PutOptions { label: "srs".into(), ..PutOptions::default() };
    let bases = client.put_bases_with(options, &points).await.unwrap();
    assert_eq!(bases.info().label, "srs");
    for encoding in
        [PointEncoding::Compressed, PointEncoding::Uncompressed, PointEncoding::Montgomery]
    {
        let bytes = client.get_encoded(bases.id(), encoding, ..).await.unwrap();
        assert_eq!(bytes, capstan::curve::points::encode(encoding, &points));
        let put = client.put_encoded(Group::G1, encoding, &bytes, PutOptions::default()).await;
        assert_eq!(put.unwrap().id, bases.id(), "{encoding:?}");
    }
    // Known bytes, declared as another encoding.
    let bytes = capstan::curve::layout::points_as_bytes(&points);
    let as_flagged = PointEncoding::Uncompressed;
    let put = client.put_encoded(Group::G1, as_flagged, bytes, PutOptions::default()).await;
    assert_eq!(put.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(client.get_bases::<G1Affine>(bases.id(), 5..9).await.unwrap(), points[5..9]);
    assert!(client.get_bases::<G1Affine>(bases.id(), 5..40_000).await.is_err());
    assert!(client.bases::<G2Affine>(bases.id()).await.is_err(), "the other group");
    assert_eq!(client.list(Some(Group::G1)).await.unwrap(), [bases.info().clone()]);
    assert!(client.list(Some(Group::G2)).await.unwrap().is_empty());
    client.release(bases.id()).await.unwrap();
    assert!(client.stat(bases.id()).await.unwrap_err().is_not_found());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_point_is_refused_with_its_index() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let mut points = points::<G1Affine>(1 << 14); // 1.5 MiB
    points[10_000].y += ark_bls12_381::Fq::one();
    let error = client.put_bases(&points).await.unwrap_err();
    assert_eq!((error.reason_text(), error.index()), ("NOT_ON_CURVE", Some(10_000)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_and_tls_give_the_same_results() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("capstan.sock");
    let certified = CertifiedFiles::new("localhost");
    let (unix_socket, tls) = (Some(socket.clone()), Some(certified.files.clone()));
    let settings = ServerSettings { unix_socket, tls, ..ServerSettings::default() };
    let server = serve(settings);
    let (points, scalars) = (points::<G1Affine>(1 << 13), sparse_scalars(1 << 17, scalars));
    let expected: Vec<_> = scalars.chunks(1 << 13).map(|row| oracle(&points, row)).collect();
    let options = MsmOptions { batch: 16, ..MsmOptions::default() };
    let secure = Client::builder(server.target.replace("127.0.0.1", "localhost"))
        .ca_certificate(certified.certificate_pem.as_str())
        .connect()
        .await
        .unwrap();
    let bases = secure.put_bases(&points).await.unwrap();
    let msm = secure.msm_with(&bases, &scalars, options.clone()).await.unwrap();
    assert_eq!(msm.points, expected);
    let local = Client::connect(format!("unix:{}", socket.display())).await.unwrap();
    let bases: BasesHandle<G1Affine> = local.bases(bases.id()).await.unwrap();
    let msm = local.msm_with(&bases, &scalars, options).await.unwrap();
    assert_eq!(msm.points, expected);
    let untrusting = Client::connect(&server.target).await.unwrap_err();
    assert!(matches!(untrusting, ClientError::CannotConnect { .. }), "{untrusting}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_end_in_time_is_refused_and_the_server_keeps_serving() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (points, scalars) = (points::<G1Affine>(1 << 13), scalars(1 << 18));
    let bases = client.put_bases(&points).await.unwrap();
    let options = MsmOptions {
        batch: 32,
        deadline: Some(Duration::from_millis(50)),
        ..MsmOptions::default()
    };
    let call = client.msm_with(&bases, &scalars, options);
    let error = tokio::time::timeout(HANGING, call).await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::DeadlineTooEarly), "{error}");
    assert!(error.retry_after().is_some(), "{error}");
    let sum = client.msm(&bases, &scalars[..1 << 13]).await.unwrap();
    assert_eq!(sum, oracle(&points, &scalars[..1 << 13]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_job_releases_its_memory_and_its_permit() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let (points, scalars) = (points::<G1Affine>(1 << 13), scalars(1 << 18));
    let bases = client.put_bases(&points).await.unwrap();
    let options = MsmOptions { batch: 32, ..MsmOptions::default() };
    let call = client.msm_with(&bases, &scalars, options);
    assert!(tokio::time::timeout(Duration::from_millis(30), call).await.is_err());
    until_idle(&client).await;
}

async fn retrying_client(target: &str, connections: usize) -> Client {
    Client::builder(target).connections(connections).retries(5).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_resume_after_broken_connections() {
    let server = server();
    let direct = Client::connect(&server.target).await.unwrap();
    // Three lanes; two of them break within their first chunk.
    let cuts = [None, Some(200 << 10), Some(200 << 10)];
    let points = sparse_points::<G1Affine>(1 << 16, points); // 6 MiB
    with_broken_connections(&server.target, &cuts, 2, async |target| {
        let client = retrying_client(target, 3).await;
        let sent = Arc::new(AtomicU64::new(0));
        let counted = sent.clone();
        let options = PutOptions {
            progress: Some(Arc::new(move |done, _| counted.store(done, Ordering::SeqCst))),
            ..PutOptions::default()
        };
        let bases = client.put_bases_with(options, &points).await.unwrap();
        assert_eq!(sent.load(Ordering::SeqCst), 96 << 16, "progress ends at the whole upload");
        assert_eq!(client.get_bases::<G1Affine>(bases.id(), ..).await.unwrap(), points);
        direct.release(bases.id()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_retried_after_broken_connections() {
    let server = server();
    let direct = Client::connect(&server.target).await.unwrap();
    let points = points::<G1Affine>(1 << 13);
    let bases = direct.put_bases(&points).await.unwrap();
    let scalars = sparse_scalars(1 << 18, scalars); // 8 MiB
    let expected: Vec<_> = scalars.chunks(1 << 13).map(|row| oracle(&points, row)).collect();
    for cuts in [
        [Some(1 << 20), None, None, None], // the job's own stream
        [None, Some(1 << 20), None, None], // a stripe
        [Some(2 << 20), Some(1 << 20), Some(1 << 19), None],
    ] {
        with_broken_connections(&server.target, &cuts, 1, async |target| {
            let client = retrying_client(target, 4).await;
            let options = MsmOptions { batch: 32, ..MsmOptions::default() };
            let msm = client.msm_with(&bases, &scalars, options).await.unwrap();
            assert_eq!(msm.points, expected);
        })
        .await;
    }
    let cuts = [None, Some(1 << 20), Some(3 << 20)];
    with_broken_connections(&server.target, &cuts, 1, async |target| {
        let mut values = scalars.clone();
        let client = retrying_client(target, 2).await;
        client.ntt(&mut values, NttOptions::forward()).await.unwrap();
        client.ntt(&mut values, NttOptions::inverse()).await.unwrap();
        assert!(values == scalars);
    })
    .await;
}

#[test]
fn the_blocking_client_gives_the_same_results() {
    let server = server();
    let client = blocking::BlockingClient::connect(&server.target).unwrap();
    let (points, scalars) = (points::<G1Affine>(1000), scalars(1024));
    let bases = client.put_bases(&points).unwrap();
    let sum: G1Projective = client.msm(&bases, &scalars[..1000]).unwrap();
    assert_eq!(sum.into_affine(), oracle(&points, &scalars[..1000]).into_affine());
    let mut values = scalars.clone();
    client.ntt(&mut values, NttOptions::forward()).unwrap();
    client.ntt(&mut values, NttOptions::inverse()).unwrap();
    assert_eq!(values, scalars);
    assert!(client.info().unwrap().limits.is_some());
}
