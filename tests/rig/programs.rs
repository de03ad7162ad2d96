//! Short constructors of programs and of calls that run them.

use std::collections::BTreeMap;

use bytes::Bytes;
use capstan::{
    curve::{Fr, points::CurvePoint},
    wire::v1::{self, run_request, run_response, step::Operation},
};
use futures_util::stream;
use tonic::{Status, Streaming, transport::Channel};

use super::{compute, messages};

const FIELD: i32 = v1::Field::Bls12381Fr as i32;

pub fn program(operations: impl IntoIterator<Item = Operation>) -> v1::Program {
    let steps = operations.into_iter().map(|operation| v1::Step { operation: Some(operation) });
    v1::Program { steps: steps.collect() }
}

pub fn input(rows: u32, length: u64) -> Operation {
    Operation::Input(v1::InputStep { field: FIELD, rows, length })
}

pub fn constant(elements: &[Fr]) -> Operation {
    let elements = messages::canonical(elements);
    Operation::Constant(v1::ConstantStep { field: FIELD, elements })
}

pub fn powers(base: Fr, first: Bytes, length: u64) -> Operation {
    let base = messages::canonical(&[base]);
    Operation::Powers(v1::PowersStep { field: FIELD, base, first, length })
}

pub fn ntt(input: u32, lg_n: u32) -> Operation {
    coset_ntt(input, lg_n, Bytes::new())
}

pub fn coset_ntt(input: u32, lg_n: u32, coset_generator: Bytes) -> Operation {
    let order = v1::Order::Natural as i32;
    Operation::Ntt(v1::NttStep {
        input,
        lg_n,
        direction: v1::Direction::Forward as i32,
        coset_generator,
        input_order: order,
        output_order: order,
    })
}

pub fn pointwise(operation: v1::PointwiseOperation, inputs: &[u32]) -> Operation {
    let (operation, inputs) = (operation as i32, inputs.to_vec());
    Operation::Pointwise(v1::PointwiseStep { operation, inputs })
}

pub fn linear_combination(inputs: &[u32], factors: &[Fr]) -> Operation {
    let (inputs, factors) = (inputs.to_vec(), messages::canonical(factors));
    Operation::LinearCombination(v1::LinearCombinationStep { inputs, factors })
}

pub fn slice(input: u32, offset: u64, length: u64) -> Operation {
    Operation::Slice(v1::SliceStep { input, offset, length })
}

pub fn concat(inputs: &[u32]) -> Operation {
    Operation::Concat(v1::ConcatStep { inputs: inputs.to_vec() })
}

pub fn pad(input: u32, length: u64) -> Operation {
    Operation::Pad(v1::PadStep { input, length })
}

pub fn evaluate(input: u32, point: Fr) -> Operation {
    Operation::Evaluate(v1::EvaluateStep { input, point: messages::canonical(&[point]) })
}

pub fn prefix_product(input: u32) -> Operation {
    Operation::PrefixProduct(v1::PrefixProductStep { input })
}

pub fn divide_by_linear(input: u32, point: Fr) -> Operation {
    let point = messages::canonical(&[point]);
    Operation::DivideByLinear(v1::DivideByLinearStep { input, point })
}

pub fn divide_by_vanishing(input: u32, lg_n: u32, coset_generator: Fr) -> Operation {
    let coset_generator = messages::canonical(&[coset_generator]);
    Operation::DivideByVanishing(v1::DivideByVanishingStep { input, lg_n, coset_generator })
}

pub fn msm<A: CurvePoint>(input: u32, object_id: &Bytes, offset: u64) -> Operation {
    let (group, object_id) = (messages::group::<A>(), object_id.clone());
    Operation::Msm(v1::MsmStep { input, group, object_id, offset })
}

pub fn sparse_product(input: u32, object_id: &Bytes, rows: u64, terms: u64) -> Operation {
    let object_id = object_id.clone();
    Operation::SparseProduct(v1::SparseProductStep { input, object_id, rows, terms })
}

pub fn poly_mul(inputs: &[u32], reduction: Option<v1::poly_mul_step::Reduction>) -> Operation {
    Operation::PolyMul(v1::PolyMulStep { inputs: inputs.to_vec(), reduction })
}

pub fn int_mul(inputs: &[u32]) -> Operation {
    Operation::IntMul(v1::IntMulStep { inputs: inputs.to_vec() })
}

pub fn int_sum(inputs: &[u32], factors: &[i64], length: u64) -> Operation {
    let (inputs, factors) = (inputs.to_vec(), factors.to_vec());
    Operation::IntSum(v1::IntSumStep { inputs, factors, length })
}

/// Steps on bits, on integers and on elements of a 31-bit prime: three inputs, and all steps that
/// take no elements of Fr.
pub fn word_steps() -> [Operation; 9] {
    let of = |field: v1::Field, rows, length| {
        Operation::Input(v1::InputStep { field: field.into(), rows, length })
    };
    [
        of(v1::Field::Gf2, 1, 4),
        of(v1::Field::Integers, 2, 2),
        of(v1::Field::BabyBear, 1, 2),
        Operation::Gf2Reduce(v1::Gf2ReduceStep { pivots: 0, rows: 0, columns: 70 }),
        Operation::Gf2Echelon(v1::Gf2EchelonStep { input: 3, columns: 70 }),
        int_mul(&[1, 1]),
        int_sum(&[1, 5], &[3, -1], 4),
        Operation::Reshape(v1::ReshapeStep { input: 6, rows: 1 }),
        poly_mul(&[2, 2], Some(v1::poly_mul_step::Reduction::Negacyclic(2))),
    ]
}

/// A call of [`word_steps`].
pub fn word_call() -> v1::RunHeader {
    use v1::ScalarEncoding::{Canonical31, Limbs32, PackedBits64};
    let input = |encoding, words: &[u32]| {
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        given(v1::program_input::Source::Inline(messages::scalars(encoding, data)))
    };
    let output = |value, encoding: v1::ScalarEncoding| {
        let encoding = encoding.into();
        wanted(value, v1::program_output::Delivery::Send(v1::SendVector { encoding }))
    };
    let inputs = vec![
        input(PackedBits64, &[1, 0, 0, 0, 2, 0, 0, 0]),
        input(Limbs32, &[7, 0, 5, 3]),
        input(Canonical31, &[9, 11]),
    ];
    let outputs = [(4, PackedBits64), (7, Limbs32), (8, Canonical31)];
    call(word_steps(), inputs, outputs.map(|(value, of)| output(value, of)).into())
}

pub fn inline_program(program: v1::Program) -> Option<v1::ProgramRef> {
    Some(v1::ProgramRef { program: Some(v1::program_ref::Program::Inline(program)) })
}

pub fn stored_program(id: &Bytes) -> Option<v1::ProgramRef> {
    Some(v1::ProgramRef { program: Some(v1::program_ref::Program::ProgramId(id.clone())) })
}

fn given(source: v1::program_input::Source) -> v1::ProgramInput {
    v1::ProgramInput { source: Some(source), reduce: false }
}

/// Canonical elements in the header.
pub fn inline(elements: &[Fr]) -> v1::ProgramInput {
    inline_bytes(messages::canonical(elements))
}

pub fn inline_bytes(data: impl Into<Bytes>) -> v1::ProgramInput {
    let vector = messages::scalars(v1::ScalarEncoding::Canonical, data);
    given(v1::program_input::Source::Inline(vector))
}

pub fn stored(id: &Bytes, offset: u64) -> v1::ProgramInput {
    let stored = v1::StoredVector { upload_id: id.clone(), offset };
    given(v1::program_input::Source::Stored(stored))
}

pub fn upload(vector: v1::VectorUpload) -> v1::ProgramInput {
    given(v1::program_input::Source::Upload(vector))
}

/// An upload of canonical elements with a fresh id.
pub fn new_upload(count: u64) -> v1::ProgramInput {
    upload(messages::new_vector(v1::ScalarEncoding::Canonical, count))
}

pub fn in_region(vector: v1::RegionVector) -> v1::ProgramInput {
    given(v1::program_input::Source::Region(vector))
}

fn wanted(value: u32, delivery: v1::program_output::Delivery) -> v1::ProgramOutput {
    v1::ProgramOutput { value, delivery: Some(delivery) }
}

/// An input that the client writes to a region during the call.
pub fn region_upload(upload: v1::RegionUpload) -> v1::ProgramInput {
    given(v1::program_input::Source::RegionUpload(upload))
}

pub fn send(value: u32) -> v1::ProgramOutput {
    let encoding = v1::ScalarEncoding::Canonical as i32;
    wanted(value, v1::program_output::Delivery::Send(v1::SendVector { encoding }))
}

pub fn keep(value: u32, id: &Bytes) -> v1::ProgramOutput {
    let (upload_id, encoding) = (id.clone(), v1::ScalarEncoding::Canonical as i32);
    wanted(value, v1::program_output::Delivery::Keep(v1::KeepVector { upload_id, encoding }))
}

pub fn to_region(value: u32, vector: v1::RegionVector) -> v1::ProgramOutput {
    wanted(value, v1::program_output::Delivery::Region(vector))
}

pub fn points(value: u32) -> v1::ProgramOutput {
    let encoding = v1::ResultEncoding::Compressed as i32;
    wanted(value, v1::program_output::Delivery::Points(v1::SendPoints { encoding, early: false }))
}

pub fn header(
    program: Option<v1::ProgramRef>,
    inputs: Vec<v1::ProgramInput>,
    outputs: Vec<v1::ProgramOutput>,
) -> v1::RunHeader {
    v1::RunHeader { program, inputs, outputs, verify: v1::Verify::None as i32 }
}

/// A call of an inline program.
pub fn call(
    operations: impl IntoIterator<Item = Operation>,
    inputs: Vec<v1::ProgramInput>,
    outputs: Vec<v1::ProgramOutput>,
) -> v1::RunHeader {
    header(inline_program(program(operations)), inputs, outputs)
}

pub fn chunk(input: u32, offset: u64, data: impl Into<Bytes>) -> v1::RunRequest {
    let chunk = v1::RunInputChunk { input, chunk: Some(messages::chunk(offset, data)) };
    v1::RunRequest { message: Some(run_request::Message::Chunk(chunk)) }
}

pub fn written(input: u32, offset: u64, length: u64) -> v1::RunRequest {
    let range = Some(v1::WrittenRange { offset, length });
    let written = v1::RunInputRange { input, range };
    v1::RunRequest { message: Some(run_request::Message::Written(written)) }
}

pub fn run_request(header: v1::RunHeader) -> v1::RunRequest {
    v1::RunRequest { message: Some(run_request::Message::Header(header)) }
}

pub fn run(header: v1::RunHeader, chunks: Vec<v1::RunRequest>) -> Vec<v1::RunRequest> {
    std::iter::once(run_request(header)).chain(chunks).collect()
}

/// The answer to a call.
#[derive(Debug)]
pub struct RunAnswer {
    /// The vectors that were sent, by the number of the output.
    pub vectors: BTreeMap<u32, Vec<u8>>,
    /// The points that were sent early, of each output.
    pub early_points: BTreeMap<u32, Vec<u8>>,
    pub result: v1::RunResult,
}

pub async fn send_run(
    channel: &Channel,
    messages: Vec<v1::RunRequest>,
) -> Result<RunAnswer, Status> {
    let answers = compute(channel).run(stream::iter(messages)).await?;
    read_answer(answers.into_inner()).await
}

/// Reads an answer, whose chunks must come in order.
pub async fn read_answer(mut answers: Streaming<v1::RunResponse>) -> Result<RunAnswer, Status> {
    use run_response::Message;
    let mut vectors: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut early_points = BTreeMap::new();
    loop {
        let answer = answers.message().await?.expect("a result at the end");
        match answer.message.expect("a message") {
            Message::Chunk(v1::RunOutputChunk { output, chunk }) => {
                let chunk = chunk.expect("a chunk");
                let last = vectors.keys().next_back().copied().unwrap_or(output);
                assert!(last <= output, "output {output} after {last}");
                let vector = vectors.entry(output).or_default();
                assert_eq!(vector.len() as u64, chunk.offset, "output {output}");
                vector.extend_from_slice(&chunk.data);
            }
            Message::Points(v1::RunOutputPoints { output, points }) => {
                let earlier = early_points.insert(output, points.to_vec());
                assert!(earlier.is_none(), "output {output} is sent early once");
            }
            Message::Result(result) => {
                assert!(answers.message().await?.is_none(), "the result comes last");
                for (output, points) in &early_points {
                    assert_eq!(result.points[*output as usize], *points, "output {output}");
                }
                return Ok(RunAnswer { vectors, early_points, result });
            }
        }
    }
}

pub async fn put_program(channel: &Channel, program: v1::Program) -> v1::PutProgramResponse {
    let request = v1::PutProgramRequest { program: Some(program) };
    let answer = super::store(channel).put_program(request).await;
    answer.expect("a valid program").into_inner()
}
