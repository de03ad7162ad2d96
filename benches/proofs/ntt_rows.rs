//! Batches of NTTs in one call, in memory that is shared with the daemon.

use std::time::Instant;

use ark_ff::UniformRand;
use ark_poly::{EvaluationDomain, Radix2EvaluationDomain};
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};
use capstan::client::{Client, Fr, NttTransform, ProgramBuilder, ProgramRun};

use crate::{
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

/// Elements of each batch.
const ELEMENTS: u32 = 1 << 25;

/// Measures a batch of transforms of 2^`lg_n` elements, one after another in the same memory.
pub async fn measure(client: &Client, lg_n: u32, runs: ProofRuns, record: &ProofRecord) {
    let (mut random, n, rows) = (StdRng::seed_from_u64(4), 1_usize << lg_n, ELEMENTS >> lg_n);
    let mut program = ProgramBuilder::new();
    let input = program.input_rows(rows, n as u64).expect("an input");
    let transformed = program.ntt(input, NttTransform::forward()).expect("a step");
    let program = program.build().expect("a program");
    let transform = async |vector| {
        let run = ProgramRun::new(&program).in_place(input, transformed, vector);
        client.run(run).await.expect("a transform")
    };
    let mut vector = client.alloc_vector(ELEMENTS as usize).await.expect("memory");
    for index in (0..vector.len()).step_by(1000) {
        vector.write(index, &[Fr::rand(&mut random)]);
    }
    let row = random.gen_range(0..rows as usize) * n;
    let [mut before, mut after] = [(); 2].map(|()| vec![Fr::from(0); n]);
    vector.read(row, &mut before);
    let mut done = transform(vector).await;
    let device = done.execution.device.clone();
    vector = done.take_vector(transformed).expect("the vector");
    let domain = Radix2EvaluationDomain::<Fr>::new(n).expect("a domain");
    vector.read(row, &mut after);
    assert!(after == domain.fft(&before), "a wrong transform");
    let mut times = Samples::default();
    for run in 0..runs.all() {
        let begun = Instant::now();
        vector = transform(vector).await.take_vector(transformed).expect("the vector");
        if run >= runs.warm_up {
            times.0.push(begun.elapsed());
        }
    }
    println!("{rows} transforms of 2^{lg_n} elements, {device}");
    record.add("ntt", &record.on_devices("call_region".to_owned()), lg_n, rows as usize, &times);
}
