//! Every kind of step, computed by the server and by definition.

use ark_ff::{FftField, Field};
use bytes::Bytes;
use capstan::{
    curve::{Fr, G1Affine, G2Affine, points::CurvePoint},
    ops::OperationKind,
    server::ServerSettings,
    sparse::{SparseBuilder, SparseMatrix},
    wire::v1::{self, ScalarEncoding, program_input, program_output, step},
};
use futures_util::stream;
use tonic::transport::Channel;

use crate::service::daemon::{
    TestServer, messages,
    programs::{self, RunAnswer},
    store, until_idle,
};

const N: usize = 8;
const LG_N: u32 = 3;

pub async fn put_bases<A: CurvePoint>(channel: &Channel, points: &[A]) -> Bytes {
    let answer = store(channel).put(stream::iter(messages::put_points(points))).await;
    match answer.expect("good points").into_inner().object.expect("an object").kind {
        Some(v1::object::Kind::Bases(bases)) => bases.object_id,
        _ => panic!("not bases"),
    }
}

async fn put_matrix(channel: &Channel, matrix: &SparseMatrix) -> Bytes {
    let chunks = vec![messages::chunk(0, matrix.as_bytes().to_vec())];
    let request = messages::put_matrix(messages::matrix(matrix), chunks);
    let answer = store(channel).put(stream::iter(request)).await;
    match answer.expect("a good matrix").into_inner().object.expect("an object").kind {
        Some(v1::object::Kind::Matrix(matrix)) => matrix.object_id,
        _ => panic!("not a matrix"),
    }
}

/// The matrix whose product with a vector is the reversed vector.
fn reversal() -> SparseMatrix {
    let mut rows = SparseBuilder::new(N, N);
    (0..N).rev().for_each(|column| rows.push_row([(Fr::from(1), column)]).expect("a column"));
    rows.build().expect("a matrix")
}

/// The sum of `elements[i] * point^i`.
fn evaluate(elements: &[Fr], point: Fr) -> Fr {
    elements.iter().rev().fold(Fr::from(0), |sum, element| sum * point + element)
}

/// The values of a polynomial on the coset `generator * <w>`.
pub fn transform(elements: &[Fr], generator: Fr) -> Vec<Fr> {
    let root = Fr::get_root_of_unity(elements.len() as u64).expect("a power of two");
    (0..elements.len() as u64).map(|i| evaluate(elements, generator * root.pow([i]))).collect()
}

fn assert_vector(answer: &RunAnswer, output: u32, expected: &[Fr]) {
    let found = &answer.vectors[&output];
    assert!(found[..] == messages::canonical(expected)[..], "output {output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_step_is_served() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let mut served = serve_steps_on_elements(&channel).await;
    served.extend(serve_steps_on_words(&channel).await);
    served.sort_unstable();
    served.dedup();
    let mut all: Vec<_> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
    all.sort_unstable();
    assert_eq!(served, all);
    until_idle(&channel, "programs").await;
}

/// Steps on elements of Fr. Returns the names of their kinds.
async fn serve_steps_on_elements(channel: &Channel) -> Vec<String> {
    let (g1, g2) = (messages::points::<G1Affine>(N + 1), messages::points::<G2Affine>(N));
    let (g1_id, g2_id) = (put_bases(channel, &g1).await, put_bases(channel, &g2).await);
    let matrix_id = put_matrix(channel, &reversal()).await;
    let all = messages::random(4 * N);
    let (a, rows, c) = (&all[..N], &all[N..3 * N], &all[3 * N..]);
    let (z, generator) = (Fr::from(5), Fr::from(7));
    let steps = [
        programs::input(0, N as u64),
        programs::input(2, N as u64),
        programs::constant(c),
        programs::powers(z, messages::canonical(&[generator]), N as u64),
        programs::coset_ntt(0, LG_N, messages::canonical(&[generator])),
        programs::pointwise(v1::PointwiseOperation::MultiplySubtract, &[0, 2, 3]),
        programs::linear_combination(&[0, 2], &[z, generator]),
        programs::slice(0, 2, 5),
        programs::concat(&[7, 0]),
        programs::pad(7, 16),
        programs::evaluate(1, z),
        programs::divide_by_linear(0, z),
        programs::divide_by_vanishing(4, LG_N, generator),
        programs::msm::<G1Affine>(1, &g1_id, 1),
        programs::msm::<G2Affine>(11, &g2_id, 0),
        programs::poly_mul(&[0, 7], None),
        programs::sparse_product(0, &matrix_id, N as u64, N as u64),
        programs::prefix_product(0),
    ];
    let outputs = (2..18).map(|value| match value {
        13 | 14 => programs::points(value),
        _ => programs::send(value),
    });
    let inputs = vec![programs::inline(a), programs::inline(rows)];
    let header = programs::call(steps, inputs, outputs.collect());
    let answer = programs::send_run(channel, programs::run(header, vec![])).await.unwrap();

    let evaluations = transform(a, generator);
    let powers: Vec<_> = (0..N as u64).map(|i| generator * z.pow([i])).collect();
    let at = |f: &dyn Fn(usize) -> Fr| (0..N).map(f).collect::<Vec<_>>();
    let quotient = at(&|i| evaluate(&a[i + 1..], z));
    let vanishing = generator.pow([N as u64]) - Fr::from(1);
    assert_vector(&answer, 0, c);
    assert_vector(&answer, 1, &powers);
    assert_vector(&answer, 2, &evaluations);
    assert_vector(&answer, 3, &at(&|i| a[i] * c[i] - powers[i]));
    assert_vector(&answer, 4, &at(&|i| a[i] * z + c[i] * generator));
    assert_vector(&answer, 5, &a[2..7]);
    assert_vector(&answer, 6, &[&a[2..7], a].concat());
    assert_vector(&answer, 7, &[&a[2..7], &[Fr::from(0); 11]].concat());
    assert_vector(&answer, 8, &[evaluate(&rows[..N], z), evaluate(&rows[N..], z)]);
    assert_vector(&answer, 9, &quotient);
    assert_vector(&answer, 10, &at(&|i| evaluations[i] / vanishing));
    let terms = |k: usize| (0..5).filter(move |i| (*i..*i + N).contains(&k));
    let coefficient = |k: usize| terms(k).map(|i| a[2 + i] * a[k - i]).sum();
    assert_vector(&answer, 13, &(0..N + 4).map(coefficient).collect::<Vec<Fr>>());
    assert_vector(&answer, 14, &at(&|i| a[N - 1 - i]));
    assert_vector(&answer, 15, &at(&|i| a[..=i].iter().product()));
    let sums = [&rows[..N], &rows[N..]]
        .map(|row| messages::compressed::<G1Affine>(messages::sum(&g1[1..], row)));
    let result = answer.result;
    assert_eq!(result.points[11], sums.concat());
    assert_eq!(result.points[12], messages::compressed::<G2Affine>(messages::sum(&g2, &quotient)));
    assert!(result.points[..11].iter().all(Bytes::is_empty), "vectors have no points");
    assert!(!result.steps[13].method.is_empty(), "an MSM reports its method");
    assert_eq!(result.execution.unwrap().engine, "cpu");
    assert!(result.timing.unwrap().compute_us > 0);
    result.steps.into_iter().map(|step| step.operation).collect()
}

/// Steps on matrices of bits and on integers. Returns the names of their kinds.
async fn serve_steps_on_words(channel: &Channel) -> Vec<String> {
    let input = |field: v1::Field, rows, length| {
        step::Operation::Input(v1::InputStep { field: field.into(), rows, length })
    };
    let steps = [
        input(v1::Field::Gf2, 1, 2),
        input(v1::Field::Gf2, 1, 6),
        input(v1::Field::Integers, 2, 2),
        step::Operation::Gf2Reduce(v1::Gf2ReduceStep { pivots: 0, rows: 1, columns: 70 }),
        step::Operation::Gf2Echelon(v1::Gf2EchelonStep { input: 1, columns: 70 }),
        programs::int_mul(&[2, 2]),
        programs::int_sum(&[2, 5], &[3, -1], 4),
        step::Operation::Reshape(v1::ReshapeStep { input: 6, rows: 1 }),
    ];
    let bits = ScalarEncoding::PackedBits64;
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // Rows with bits 0 and 1; 1 and 5; 0, 5 and 68.
    let given = [3, 0, 34, 0, 33, 1 << 4];
    let integers = [7_u64, 3 << 32 | 5];
    let inputs = [
        (bits, bytes(&[1, 0])),
        (bits, bytes(&given)),
        (ScalarEncoding::Limbs32, bytes(&integers)),
    ];
    let inputs = inputs.map(|(encoding, data): (_, Vec<u8>)| {
        let vector = messages::scalars(encoding, data);
        v1::ProgramInput { source: Some(program_input::Source::Inline(vector)), reduce: false }
    });
    let send = |value, encoding: ScalarEncoding| {
        let delivery = program_output::Delivery::Send(v1::SendVector { encoding: encoding.into() });
        v1::ProgramOutput { delivery: Some(delivery), ..programs::send(value) }
    };
    let limbs = [5, 7].map(|value| send(value, ScalarEncoding::Limbs32));
    let outputs = [3, 4].map(|value| send(value, bits)).into_iter().chain(limbs);
    let header = programs::call(steps, inputs.to_vec(), outputs.collect());
    let answer = programs::send_run(channel, programs::run(header, vec![])).await.unwrap();
    // The pivot has bit 0. Each reduced row is a pivot of the rows after it.
    assert_eq!(answer.vectors[&0], bytes(&[2, 0, 32, 0, 0, 1 << 4]));
    assert_eq!(answer.vectors[&1], bytes(&[33, 0, 34, 0, 0, 1 << 4]));
    let wide = integers.map(u128::from);
    let squares = wide.map(|integer| integer * integer);
    let sums = [0, 1].map(|row| (3 * wide[row]).wrapping_sub(squares[row]));
    assert_eq!(answer.vectors[&2], squares.map(u128::to_le_bytes).concat());
    assert_eq!(answer.vectors[&3], sums.map(u128::to_le_bytes).concat());
    answer.result.steps.into_iter().map(|step| step.operation).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pointwise_operation_is_served() {
    use v1::PointwiseOperation::{Add, Invert, Multiply, MultiplyAdd, Subtract};
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let all = messages::random(3 * N);
    let (a, b, c) = (&all[..N], &all[N..2 * N], &all[2 * N..]);
    let inputs = [a, b, c].map(|_| programs::input(1, N as u64));
    let steps = inputs.into_iter().chain([
        programs::pointwise(Add, &[0, 1]),
        programs::pointwise(Subtract, &[0, 1]),
        programs::pointwise(Multiply, &[0, 1]),
        programs::pointwise(MultiplyAdd, &[0, 1, 2]),
        programs::pointwise(Invert, &[0]),
    ]);
    let outputs = (3..8).map(programs::send).collect();
    let header = programs::call(steps, [a, b, c].map(programs::inline).to_vec(), outputs);
    let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    let at = |f: &dyn Fn(usize) -> Fr| (0..N).map(f).collect::<Vec<_>>();
    assert_vector(&answer, 0, &at(&|i| a[i] + b[i]));
    assert_vector(&answer, 1, &at(&|i| a[i] - b[i]));
    assert_vector(&answer, 2, &at(&|i| a[i] * b[i]));
    assert_vector(&answer, 3, &at(&|i| a[i] * b[i] + c[i]));
    assert_vector(&answer, 4, &at(&|i| a[i].inverse().expect("not zero")));
}

/// A chain of steps, of which the caller sees the end only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intermediate_values_stay_on_the_server() {
    let daemon = TestServer::start(ServerSettings::default());
    let channel = daemon.channel().await;
    let bases = messages::points::<G1Affine>(N);
    let id = put_bases(&channel, &bases).await;
    let (a, z) = (messages::random(N), Fr::from(9));
    let steps = [
        programs::input(1, N as u64),
        programs::linear_combination(&[0, 0], &[z, z]),
        programs::divide_by_linear(1, z),
        programs::msm::<G1Affine>(2, &id, 0),
    ];
    let header = programs::call(steps, vec![programs::inline(&a)], vec![programs::points(3)]);
    let answer = programs::send_run(&channel, programs::run(header, vec![])).await.unwrap();
    let doubled: Vec<_> = a.iter().map(|element| (z + z) * element).collect();
    let quotient: Vec<_> = (0..N).map(|i| evaluate(&doubled[i + 1..], z)).collect();
    let sum = messages::compressed::<G1Affine>(messages::sum(&bases, &quotient));
    assert_eq!(answer.result.points, [sum]);
    assert!(answer.vectors.is_empty());
}
