//! Calls whose rows are computed by several GPUs at once.

use std::{ops::Range, time::Duration};

use ark_ff::UniformRand as _;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use capstan::{
    client::{
        ClientError, ClientProgram, Fr, NttOptions, NttTransform, PolyReduction, ProgramBuilder,
        ProgramRun, RunOptions, ScalarInput, VectorValue, Verification,
    },
    curve::scalars::ScalarEncoding,
    field::Prime31,
    wire::v1::{self, ntt_stream_response::Message},
};
use rustix::process::{Signal, kill_process};
use tokio::{
    runtime::Runtime,
    sync::mpsc,
    time::{error::Elapsed, sleep, timeout},
};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::{
    shared::spread_server,
    spread::{CHECKS, SpreadServer},
    wire::{
        TEST_TIMEOUT, compute,
        messages::{canonical, ntt_spec},
        programs::{call, in_region, input, ntt, run, send_run, to_region},
        regions::{self, mapped},
        unix_channel,
    },
};

/// Not a multiple of the number of GPUs.
pub const ROWS: usize = 5;
pub const N: usize = 64;

pub fn random_rows(seed: u64) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..ROWS * N).map(|_| Fr::rand(&mut rng)).collect()
}

pub fn transform_rows(rows: &[Fr]) -> Vec<Fr> {
    let domain = Radix2EvaluationDomain::<Fr>::new(N).unwrap();
    rows.chunks(N).flat_map(|row| domain.fft(row)).collect()
}

#[test]
fn gpus_divide_batches_and_programs_by_rows() {
    let Some(spread) = spread_server(2) else { return };
    divides_ntts(&spread, 2);
    divides_a_batch_that_arrives_in_chunks(&spread);
    divides_programs(&spread);
    divides_vectors_over_31_bits(&spread);
    refuses_the_first_of_all_elements(&spread);
    transforms_in_place(&spread);
    Runtime::new().unwrap().block_on(async {
        writes_to_memory_that_overlaps_its_input(&spread).await;
        transforms_rows_before_later_ones_have_arrived(&spread).await;
    });
}

#[test]
fn three_gpus_divide_batches_of_ntts() {
    let Some(spread) = spread_server(3) else { return };
    divides_ntts(&spread, 3);
}

fn divides_ntts(spread: &SpreadServer, devices: u32) {
    let values = random_rows(1);
    for verify in CHECKS {
        let mut rows = values.clone();
        let options = NttOptions { batch: ROWS as u32, verify, ..NttOptions::default() };
        let done = spread.client.ntt(&mut rows, options).unwrap();
        assert!(rows == transform_rows(&values), "{verify:?}");
        assert_eq!(done.execution.verified, verify);
        let expected = format!("{devices} GPUs: ");
        assert!(done.execution.device.starts_with(&expected), "{}", done.execution.device);
    }
    // One row has no parts.
    let mut row = values[..N].to_vec();
    let done = spread.client.ntt(&mut row, NttOptions::default()).unwrap();
    assert!(row == transform_rows(&values[..N]));
    assert!(!done.execution.device.contains("GPUs"), "{}", done.execution.device);
}

/// Each GPU begins with the rows that have arrived.
fn divides_a_batch_that_arrives_in_chunks(spread: &SpreadServer) {
    const LENGTH: usize = 1 << 14;
    let mut rng = StdRng::seed_from_u64(6);
    // More than a message.
    let values: Vec<_> = (0..9 * LENGTH).map(|_| Fr::rand(&mut rng)).collect();
    let domain = Radix2EvaluationDomain::<Fr>::new(LENGTH).unwrap();
    let mut rows = values.clone();
    let options = NttOptions { batch: 9, ..NttOptions::default() };
    let done = spread.client.ntt(&mut rows, options).unwrap();
    assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
    for (row, values) in rows.chunks(LENGTH).zip(values.chunks(LENGTH)) {
        assert!(row == domain.fft(values));
    }
}

/// A program of several steps that reads two inputs and makes outputs of several lengths.
fn divides_programs(spread: &SpreadServer) {
    let (a, b) = (random_rows(2), random_rows(3));
    let mut program = ProgramBuilder::new();
    let [x, y] = [(); 2].map(|()| program.input_rows(ROWS as u32, N as u64).unwrap());
    let [of_x, of_y] = [x, y].map(|input| program.ntt(input, NttTransform::forward()).unwrap());
    let product = program.multiply(of_x, of_y).unwrap();
    let cyclic = program.ntt(product, NttTransform::inverse()).unwrap();
    let checksum = program.evaluate(cyclic, Fr::from(1)).unwrap();
    let direct = program.poly_mul(x, y, PolyReduction::Cyclic(N as u64)).unwrap();
    let program = program.build().unwrap();
    let total = |row: &[Fr]| row.iter().sum::<Fr>();
    let totals: Vec<_> = a.chunks(N).zip(b.chunks(N)).map(|(a, b)| total(a) * total(b)).collect();
    for verify in CHECKS {
        let run = ProgramRun::new(&program).input(x, &a).input(y, &b);
        let run = run.send(direct).send(cyclic).send(checksum).send(of_x);
        let options = RunOptions { verify, ..RunOptions::default() };
        let done = spread.client.run_with(run, options).unwrap();
        assert!(done.vector(of_x).unwrap() == transform_rows(&a));
        assert!(done.vector(cyclic).unwrap() == done.vector(direct).unwrap());
        assert_eq!(done.vector(checksum).unwrap(), totals);
        assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
        let checked = done.steps.iter().filter(|step| step.verified == verify).count();
        assert!(checked >= 4, "{:?}", done.steps);
    }
}

fn divides_vectors_over_31_bits(spread: &SpreadServer) {
    let field = Prime31::BabyBear;
    let mut rng = StdRng::seed_from_u64(4);
    let values: Vec<u32> = (0..ROWS * N).map(|_| rng.gen_range(0..field.modulus())).collect();
    let mut program = ProgramBuilder::new();
    let input = program.input_over(field, ROWS as u32, N as u64).unwrap();
    let transformed = program.ntt(input, NttTransform::forward()).unwrap();
    let back = program.ntt(transformed, NttTransform::inverse()).unwrap();
    let program = program.build().unwrap();
    let run = ProgramRun::new(&program).input(input, &values).send(transformed).send(back);
    let done = spread.client.run(run).unwrap();
    assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
    assert_eq!(done.vector31(back).unwrap(), values);
    let sums = done.vector31(transformed).unwrap();
    for (row, transformed) in values.chunks(N).zip(sums.chunks(N)) {
        let sum: u64 = row.iter().copied().map(u64::from).sum();
        assert_eq!(u64::from(transformed[0]), sum % u64::from(field.modulus()));
    }
}

/// The refusal names the first of all elements, whichever GPUs read them.
fn refuses_the_first_of_all_elements(spread: &SpreadServer) {
    let mut program = ProgramBuilder::new();
    let [x, y] = [(); 2].map(|()| program.input_rows(ROWS as u32, N as u64).unwrap());
    let product = program.multiply(x, y).unwrap();
    let program = program.build().unwrap();
    let all = ROWS * N;
    // The first GPU has two rows, the second one three.
    for (bad_x, bad_y) in [(Some(3), None), (Some(all - 1), Some(0)), (None, Some(2 * N))] {
        let bytes_of = |bad: Option<usize>| {
            let mut bytes = vec![0; 32 * all];
            bad.inspect(|&index| bytes[32 * index..][..32].fill(0xff));
            bytes
        };
        let (of_x, of_y) = (bytes_of(bad_x), bytes_of(bad_y));
        let [of_x, of_y] = [&of_x, &of_y]
            .map(|bytes| ScalarInput::Bytes { encoding: ScalarEncoding::Canonical, bytes });
        let run = ProgramRun::new(&program).input(x, of_x).input(y, of_y).send(product);
        let Err(ClientError::Refused(refusal)) = spread.client.run(run) else {
            panic!("accepted {bad_x:?}, {bad_y:?}")
        };
        let first = bad_x.or(bad_y).unwrap() as u64;
        assert_eq!((refusal.reason_text.as_str(), refusal.index), ("NOT_CANONICAL", Some(first)));
    }
}

/// A program that transforms rows, its input and its output.
pub fn row_transform() -> (ClientProgram, VectorValue, VectorValue) {
    let mut program = ProgramBuilder::new();
    let input = program.input_rows(ROWS as u32, N as u64).unwrap();
    let transformed = program.ntt(input, NttTransform::forward()).unwrap();
    (program.build().unwrap(), input, transformed)
}

/// Each GPU overwrites the rows that it reads.
pub fn transforms_in_place(spread: &SpreadServer) {
    let values = random_rows(5);
    let (program, input, transformed) = row_transform();
    for verify in [Verification::None, Verification::Probabilistic] {
        let mut vector = spread.client.alloc_vector(ROWS * N).unwrap();
        assert!(vector.is_shared());
        vector.copy_from_slice(&values);
        let run = ProgramRun::new(&program).in_place(input, transformed, vector);
        let options = RunOptions { verify, ..RunOptions::default() };
        let mut done = spread.client.run_with(run, options).unwrap();
        assert!(done.execution.device.starts_with("2 GPUs: "), "{}", done.execution.device);
        assert!(*done.take_vector(transformed).unwrap().to_vec() == transform_rows(&values));
    }
}

/// Each GPU would overwrite rows that the other one reads later.
async fn writes_to_memory_that_overlaps_its_input(spread: &SpreadServer) {
    const ROW: usize = 32 * N;
    let (channel, values) = (unix_channel(&spread.socket()).await, random_rows(9));
    let (given, expected) = (canonical(&values), canonical(&transform_rows(&values)));
    let mut region = mapped(&channel, &spread.socket(), (ROW * (ROWS + 1)) as u64).await;
    for slow in spread.workers() {
        for (from, to) in [(0, ROW), (ROW, 0)] {
            region.put(from, &given);
            let vector = |at| region.vector(at as u64, v1::ScalarEncoding::Canonical);
            let steps = [input(ROWS as u32, N as u64), ntt(0, N.ilog2())];
            let header = call(steps, vec![in_region(vector(from))], vec![to_region(1, vector(to))]);
            let channel = channel.clone();
            kill_process(slow, Signal::STOP).unwrap();
            let answer = tokio::spawn(async move { send_run(&channel, run(header, vec![])).await });
            let is_written = |rows: Range<usize>| {
                let bytes = rows.start * ROW..rows.end * ROW;
                region.bytes(to + bytes.start, bytes.len()) == expected[bytes]
            };
            let one_part = until(|| is_written(0..ROWS / 2) || is_written(ROWS / 2..ROWS));
            one_part.await.expect("the rows of a GPU");
            kill_process(slow, Signal::CONT).unwrap();
            let device = answer.await.unwrap().unwrap().result.execution.unwrap().device;
            assert!(device.starts_with("2 GPUs: "), "{device}");
            assert!(region.bytes(to, ROWS * ROW) == expected[..], "{from} to {to}");
        }
    }
}

/// Waits until a GPU has written to a region.
async fn until(is_written: impl Fn() -> bool) -> Result<(), Elapsed> {
    let look = async {
        while !is_written() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TEST_TIMEOUT, look).await
}

/// The client of a batch waits for the rows of the first GPU before it writes the others.
async fn transforms_rows_before_later_ones_have_arrived(spread: &SpreadServer) {
    const BYTES: usize = 32 * ROWS * N;
    const FIRST: usize = 32 * (ROWS / 2) * N;
    let (channel, values) = (unix_channel(&spread.socket()).await, random_rows(10));
    let (given, expected) = (canonical(&values), canonical(&transform_rows(&values)));
    let mut region = mapped(&channel, &spread.socket(), 2 * BYTES as u64).await;
    // Not canonical.
    region.put(0, &[0xff; BYTES]);
    region.put(0, &given[..FIRST]);
    let header = v1::NttStreamHeader {
        spec: Some(v1::NttSpec { batch: ROWS as u32, ..ntt_spec(N.ilog2()) }),
        region_input: Some(region.upload(0, values.len() as u64)),
        region_output: Some(region.place(BYTES as u64)),
        ..Default::default()
    };
    let written = [(0, FIRST as u64), (FIRST as u64, (BYTES - FIRST) as u64)];
    let mut messages = regions::ntt(header, &written);
    let rest = messages.pop().unwrap();
    let (sender, request) = mpsc::unbounded_channel();
    messages.into_iter().for_each(|message| sender.send(message).unwrap());
    let mut compute = compute(&channel);
    let call =
        tokio::spawn(
            async move { compute.ntt_stream(UnboundedReceiverStream::new(request)).await },
        );
    let has_first_rows = || region.bytes(BYTES, FIRST) == expected[..FIRST];
    until(has_first_rows).await.expect("the first rows");
    region.put(FIRST, &given[FIRST..]);
    sender.send(rest).unwrap();
    let mut answer = call.await.unwrap().expect("no error").into_inner();
    let message = answer.message().await.unwrap().unwrap().message;
    let Some(Message::Result(result)) = message else { panic!("no result: {message:?}") };
    assert!(region.bytes(BYTES, BYTES) == expected[..], "wrong transforms");
    let device = result.execution.unwrap().device;
    assert!(device.starts_with("2 GPUs: "), "{device}");
}
