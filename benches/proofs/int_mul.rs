//! Products of integers in one call, by the engine that the daemon chooses.

use std::time::Instant;

use ark_std::rand::{RngCore, SeedableRng, rngs::StdRng};
use capstan::client::{Client, RunOptions};
use num_bigint::BigUint;

use crate::{
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

/// Measures products of two integers of `limbs` limbs each.
pub async fn measure(client: &Client, limbs: usize, runs: ProofRuns, record: &ProofRecord) {
    let mut random = StdRng::seed_from_u64(6);
    let mut draw = || BigUint::new((0..limbs).map(|_| random.next_u32() | 1).collect());
    let (a, b) = (draw(), draw());
    let expected = &a * &b;
    let (mut times, mut engine) = (Samples::default(), String::new());
    for run in 0..runs.all() {
        let begun = Instant::now();
        let done = client.int_mul(&a, &b, RunOptions::default()).await.expect("a product");
        if run >= runs.warm_up {
            times.0.push(begun.elapsed());
        }
        assert!(done.product == expected, "a wrong product");
        engine = done.execution.engine;
    }
    println!("product of two integers of {limbs} limbs, by the engine {engine}");
    let lg_bits = (limbs as u32).ilog2() + 5;
    let mode = record.on_devices(format!("call_unix_{limbs}_limbs_{engine}"));
    record.add_us("int_mul", &mode, lg_bits, 1, &times);
}
