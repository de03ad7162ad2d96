//! Short constructors of valid messages. Tests make invalid ones with `..` or a closure.

use ark_std::{UniformRand, test_rng};
use bytes::Bytes;
use capstan::{
    curve::{
        Fr, Group,
        points::{CurvePoint, PointEncoding, SumEncoding, encode, encode_sums},
        scalars::{ScalarEncoding, encode_fr},
    },
    sparse::{SparseBuilder, SparseMatrix, SparseShape},
    wire::v1,
};

/// A fresh upload id.
pub fn id() -> Bytes {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Bytes::from(u128::from(number).to_le_bytes().to_vec())
}

pub fn group<A: CurvePoint>() -> i32 {
    match A::GROUP {
        Group::G1 => v1::Group::G1 as i32,
        Group::G2 => v1::Group::G2 as i32,
    }
}

pub fn point_encoding(encoding: PointEncoding) -> i32 {
    (match encoding {
        PointEncoding::Compressed => v1::PointEncoding::Compressed,
        PointEncoding::Uncompressed => v1::PointEncoding::Uncompressed,
        PointEncoding::Montgomery => v1::PointEncoding::Montgomery,
    }) as i32
}

/// The first `n` multiples of a random point.
pub fn points<A: CurvePoint>(n: usize) -> Vec<A> {
    use ark_ec::CurveGroup;
    let first = A::Group::rand(&mut test_rng());
    let all: Vec<_> = std::iter::successors(Some(first), |at| Some(*at + first)).take(n).collect();
    A::Group::normalize_batch(&all)
}

pub fn random(n: usize) -> Vec<Fr> {
    let mut rng = test_rng();
    (0..n).map(|_| Fr::rand(&mut rng)).collect()
}

/// Encodes elements canonically.
pub fn canonical(values: &[Fr]) -> Bytes {
    let mut bytes = vec![0; values.len() * 32];
    encode_fr(ScalarEncoding::Canonical, values, &mut bytes);
    bytes.into()
}

/// `sum of scalars[i] * points[i]`, by one multiplication for each term.
pub fn sum<A: CurvePoint>(points: &[A], scalars: &[Fr]) -> A::Group {
    use ark_ff::PrimeField;
    let terms = points.iter().zip(scalars);
    terms.map(|(point, scalar)| point.mul_bigint(scalar.into_bigint())).sum()
}

/// Encodes a sum as a compressed point.
pub fn compressed<A: CurvePoint>(sum: A::Group) -> Bytes {
    encode_sums(SumEncoding::Compressed, &A::into_sums(vec![sum])).into()
}

pub fn spec(group: i32, bases: v1::msm_spec::Bases) -> v1::MsmSpec {
    v1::MsmSpec {
        group,
        bases: Some(bases),
        batch: 0,
        reduce: false,
        result_encoding: v1::ResultEncoding::Compressed as i32,
        verify: v1::Verify::None as i32,
    }
}

pub fn stored(object_id: &Bytes, offset: u64, length: u64) -> v1::msm_spec::Bases {
    v1::msm_spec::Bases::Stored(v1::StoredBases { object_id: object_id.clone(), offset, length })
}

pub fn inline_bytes(encoding: PointEncoding, data: impl Into<Bytes>) -> v1::msm_spec::Bases {
    let encoding = point_encoding(encoding);
    v1::msm_spec::Bases::Inline(v1::InlineBases { encoding, data: data.into() })
}

pub fn inline<A: CurvePoint>(points: &[A]) -> v1::msm_spec::Bases {
    inline_bytes(PointEncoding::Montgomery, encode(PointEncoding::Montgomery, points))
}

pub fn scalars(encoding: v1::ScalarEncoding, data: impl Into<Bytes>) -> v1::InlineVector {
    v1::InlineVector { encoding: encoding as i32, data: data.into() }
}

pub fn msm(spec: v1::MsmSpec, scalars: v1::InlineVector) -> v1::MsmRequest {
    let scalars = Some(v1::msm_request::Scalars::Inline(scalars));
    v1::MsmRequest { spec: Some(spec), scalars }
}

pub fn msm_on(spec: v1::MsmSpec, upload_id: &Bytes) -> v1::MsmRequest {
    let scalars = Some(v1::msm_request::Scalars::UploadId(upload_id.clone()));
    v1::MsmRequest { spec: Some(spec), scalars }
}

pub fn vector(id: &Bytes, encoding: v1::ScalarEncoding, count: u64) -> v1::VectorUpload {
    v1::VectorUpload { upload_id: id.clone(), encoding: encoding as i32, count, streams: 0 }
}

/// The header of a vector with a fresh id.
pub fn new_vector(encoding: v1::ScalarEncoding, count: u64) -> v1::VectorUpload {
    vector(&id(), encoding, count)
}

pub fn chunk(offset: u64, data: impl Into<Bytes>) -> v1::Chunk {
    v1::Chunk { offset, data: data.into() }
}

pub fn msm_stream(
    spec: v1::MsmSpec,
    vector: v1::VectorUpload,
    chunks: Vec<v1::Chunk>,
) -> Vec<v1::MsmStreamRequest> {
    use v1::msm_stream_request::Message;
    let header =
        v1::MsmStreamHeader { spec: Some(spec), scalars: Some(vector), region_scalars: None };
    let messages = std::iter::once(Message::Header(header));
    let messages = messages.chain(chunks.into_iter().map(Message::Chunk));
    messages.map(|message| v1::MsmStreamRequest { message: Some(message) }).collect()
}

pub fn ntt_stream(
    spec: v1::NttSpec,
    vector: v1::VectorUpload,
    chunks: Vec<v1::Chunk>,
) -> Vec<v1::NttStreamRequest> {
    use v1::ntt_stream_request::Message;
    let (spec, input) = (Some(spec), Some(vector));
    let header = v1::NttStreamHeader { spec, input, ..Default::default() };
    let messages = std::iter::once(Message::Header(header));
    let messages = messages.chain(chunks.into_iter().map(Message::Chunk));
    messages.map(|message| v1::NttStreamRequest { message: Some(message) }).collect()
}

pub fn put_vector(vector: v1::VectorUpload, chunks: Vec<v1::Chunk>) -> Vec<v1::PutRequest> {
    put(v1::put_request::Message::Vector(vector), chunks)
}

pub fn put_bases(bases: v1::BasesUpload, chunks: Vec<v1::Chunk>) -> Vec<v1::PutRequest> {
    put(v1::put_request::Message::Bases(bases), chunks)
}

pub fn put_matrix(matrix: v1::MatrixUpload, chunks: Vec<v1::Chunk>) -> Vec<v1::PutRequest> {
    put(v1::put_request::Message::Matrix(matrix), chunks)
}

fn put(header: v1::put_request::Message, chunks: Vec<v1::Chunk>) -> Vec<v1::PutRequest> {
    let chunks = chunks.into_iter().map(v1::put_request::Message::Chunk);
    let messages = std::iter::once(header).chain(chunks);
    messages.map(|message| v1::PutRequest { message: Some(message) }).collect()
}

pub fn bases<A: CurvePoint>(encoding: PointEncoding, count: u64) -> v1::BasesUpload {
    v1::BasesUpload {
        upload_id: id(),
        group: group::<A>(),
        encoding: point_encoding(encoding),
        count,
        streams: 0,
        payload_hash: Bytes::new(),
        persist: false,
        label: String::new(),
    }
}

/// The header of a matrix.
pub fn matrix(matrix: &SparseMatrix) -> v1::MatrixUpload {
    let SparseShape { rows, columns, terms, coefficients } = matrix.shape();
    v1::MatrixUpload {
        upload_id: id(),
        rows: rows.into(),
        columns: columns.into(),
        terms: terms.into(),
        coefficients: coefficients.into(),
        ..Default::default()
    }
}

/// A matrix of 4 rows, 5 columns, 6 terms and 2 coefficients.
pub fn some_matrix() -> SparseMatrix {
    let [one, two, three] = [1, 2, 3].map(Fr::from);
    let mut builder = SparseBuilder::new(4, 5);
    builder.push_row([(two, 0), (one, 4)]).expect("columns below 5");
    builder.push_row([]).expect("no columns");
    builder.push_row([(-one, 1), (three, 2), (two, 3)]).expect("columns below 5");
    builder.push_row([(three, 4)]).expect("columns below 5");
    builder.build().expect("few terms")
}

/// A valid upload of bases, in one chunk.
pub fn put_points<A: CurvePoint>(points: &[A]) -> Vec<v1::PutRequest> {
    let upload = bases::<A>(PointEncoding::Montgomery, points.len() as u64);
    put_bases(upload, vec![chunk(0, encode(PointEncoding::Montgomery, points))])
}

pub fn ntt_spec(lg_n: u32) -> v1::NttSpec {
    v1::NttSpec {
        field: v1::Field::Bls12381Fr.into(),
        lg_n,
        direction: v1::Direction::Forward as i32,
        coset_generator: Bytes::new(),
        input_order: v1::Order::Natural as i32,
        output_order: v1::Order::Natural as i32,
        batch: 0,
        output_encoding: v1::ScalarEncoding::Canonical as i32,
        reduce: false,
        row_length: None,
        verify: v1::Verify::None as i32,
    }
}

pub fn ntt(spec: v1::NttSpec, input: v1::InlineVector) -> v1::NttRequest {
    let input = Some(v1::ntt_request::Input::Inline(input));
    v1::NttRequest { spec: Some(spec), input, keep: false }
}
