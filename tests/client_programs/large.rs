//! Runs whose inputs and outputs do not fit into one message.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ark_ff::Zero;
use capstan::client::{
    Client, ClientProgram, Fr, ProgramBuilder, ProgramRun, RunOptions, RunResult, VectorValue,
    Verification,
};

use crate::client_programs::{
    common::{scalars, server},
    idle::until_idle,
    proxy::with_broken_connections,
};

/// Two inputs of 8 MiB, one of 2 MiB, and one that fits into the first message.
struct LargeRun {
    values: [Vec<Fr>; 4],
    inputs: [VectorValue; 4],
    outputs: [VectorValue; 2],
    program: ClientProgram,
}

impl LargeRun {
    fn new() -> Self {
        let lengths = [1 << 18, 1 << 18, 1 << 16, 1 << 10];
        let values = lengths.map(|length| {
            let mut values = scalars(length);
            values[0] = Fr::from(length as u64);
            values
        });
        let mut program = ProgramBuilder::new();
        let inputs = lengths.map(|length| program.input(length as u64).unwrap());
        let [a, b, c, d] = inputs;
        let wide = program.pad(c, 1 << 18).unwrap();
        let large = program.multiply_add(a, b, wide).unwrap();
        let small = program.concat(&[d, c]).unwrap();
        Self { values, inputs, outputs: [large, small], program: program.build().unwrap() }
    }

    fn run(&self) -> ProgramRun<'_> {
        let inputs = self.inputs.iter().zip(&self.values);
        let run = inputs
            .fold(ProgramRun::new(&self.program), |run, (input, values)| run.input(*input, values));
        run.send(self.outputs[0]).send(self.outputs[1])
    }

    fn check(&self, result: &RunResult) {
        let [a, b, c, d] = &self.values;
        let c_padded = c.iter().copied().chain(iter::repeat(Fr::zero()));
        let large = a.iter().zip(b).zip(c_padded).map(|((a, b), c)| *a * b + c);
        let received = result.vector(self.outputs[0]).unwrap();
        assert!(large.eq(received.iter().copied()));
        assert!(result.vector(self.outputs[1]).unwrap() == [&d[..], &c[..]].concat());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_inputs_and_outputs_travel_over_one_or_several_connections() {
    let server = server();
    let large = LargeRun::new();
    for connections in [1, 3] {
        let client = Client::builder(&server.target).connections(connections);
        let client = client.connect().await.unwrap();
        let (done, all) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, total) = (done.clone(), all.clone());
        let progress = move |sent, of| {
            counted.store(sent, Ordering::SeqCst);
            total.store(of, Ordering::SeqCst);
        };
        let options = RunOptions { progress: Some(Arc::new(progress)), ..RunOptions::default() };
        let result = client.run_with(large.run(), options).await.unwrap();
        large.check(&result);
        let [done, all] = [done, all].map(|bytes| bytes.load(Ordering::SeqCst));
        let sent = 32 * ((2 << 18) + (1 << 16) + (1 << 10));
        assert_eq!((done, all), (all, sent + 32 * ((1 << 18) + (1 << 16) + (1 << 10))));
        until_idle(&client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_run_leaves_nothing_on_the_server() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let large = LargeRun::new();
    let run = || client.run(large.run().keep(large.inputs[0]));
    while let Ok(early) = tokio::time::timeout(Duration::from_millis(5), run()).await {
        let kept = early.unwrap().kept(large.inputs[0]).unwrap();
        client.release_vector(kept.id).await.unwrap();
    }
    until_idle(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_retried_after_broken_connections() {
    let server = server();
    let large = LargeRun::new();
    for cuts in [
        [Some(1 << 20), None, None, None], // the call's own stream
        [None, Some(1 << 20), None, None], // a stripe
        [Some(2 << 20), Some(1 << 20), Some(1 << 19), None],
    ] {
        with_broken_connections(&server.target, &cuts, 1, async |target| {
            let client = Client::builder(target).connections(4).retries(5);
            let client = client.connect().await.unwrap();
            large.check(&client.run(large.run()).await.unwrap());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_counts_the_bytes_of_inputs_and_outputs() {
    let server = server();
    let client = Client::connect(&server.target).await.unwrap();
    let large = LargeRun::new();
    let estimate = client.estimate(&large.run(), Verification::Full).await.unwrap();
    assert_eq!(estimate.input_bytes, 32 * ((2 << 18) + (1 << 16) + (1 << 10)));
    assert_eq!(estimate.output_bytes, 32 * ((1 << 18) + (1 << 16) + (1 << 10)));
    assert!(estimate.value_bytes > 0 && estimate.engine == "cpu", "{estimate:?}");
    let unchecked = client.estimate(&large.run(), Verification::None).await.unwrap();
    assert!(estimate.modelled_time > unchecked.modelled_time, "{estimate:?}, {unchecked:?}");
    assert!(!unchecked.modelled_time.is_zero());
}
