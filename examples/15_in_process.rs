//! Lesson 15: the engine without a server. It computes in this process, on the GPUs of the host or
//! on its processors, and needs neither tokio nor gRPC.
//!
//! `cargo run --release --example 15_in_process`, with `-- 20` for the time of MSMs and NTTs up to
//! 2^20

use std::{env, iter, time::Instant};

use ark_ec::{AffineRepr, CurveGroup};
use ark_ff::Field;
use capstan::{
    curve::{Fr, G1Affine},
    engine::{Engine, EngineOptions, EngineRun, NttPlan, ProgramBuilder, Verification},
    error::Result,
};

fn main() -> Result<()> {
    // The self-test of a GPU takes a second or two.
    let engine = Engine::open()?;
    println!("{}: {}", engine.device().name, engine.reason());

    // Points are checked once. A GPU keeps them, and makes tables of multiples if they are used
    // again.
    let generator = G1Affine::generator();
    let points: Vec<_> = (1..=256_u64).map(|i| (generator * Fr::from(i)).into_affine()).collect();
    let bases = engine.bases(&points)?;
    let scalars: Vec<_> = (0..256_u64).map(Fr::from).collect();
    let sum = engine.msm(&bases, &scalars)?;
    let expected: u64 = (0..256).map(|i| i * (i + 1)).sum();
    assert_eq!(sum, generator * Fr::from(expected));

    // There and back.
    let mut values = scalars.clone();
    engine.ntt(&mut values, NttPlan::forward(8))?;
    assert_eq!(values[0], Fr::from(255_u64 * 128));
    engine.ntt(&mut values, NttPlan::inverse(8))?;
    assert_eq!(values, scalars);

    // A program: the values between its steps stay on the device. This one opens a KZG commitment.
    let point = Fr::from(3);
    let mut program = ProgramBuilder::new();
    let f = program.input(256)?;
    let value = program.evaluate(f, point)?;
    let quotient = program.divide_by_linear(f, point)?;
    let proof = program.msm(&bases, quotient)?;
    let program = program.build()?;
    let run = EngineRun::new(&program).input(f, &scalars).send(value).send_points(proof);
    let opened = engine.run(run)?;
    let at_point = scalars.iter().rev().fold(Fr::from(0), |sum, c| sum * point + c);
    assert_eq!(opened.vector(value)?, [at_point]);
    println!("f(3) is {at_point}, with the proof {}", opened.points(proof)?[0]);

    // Every result computed again, by arkworks on other threads, before it is returned.
    let checked = Engine::with(EngineOptions {
        gpus: false,
        verify: Verification::Full,
        ..Default::default()
    })?;
    assert_eq!(checked.msm(&checked.bases(&points)?, &scalars)?, sum);

    if let Some(lg_n) = env::args().nth(1).and_then(|text| text.parse().ok()) {
        measure(&engine, lg_n)?;
    }
    Ok(())
}

/// Prints the median time of MSMs and NTTs of up to 2^`lg_max`, in milliseconds.
fn measure(engine: &Engine, lg_max: u32) -> Result<()> {
    let generator = G1Affine::generator();
    let points: Vec<_> = (1..=1024_u64).map(|i| (generator * Fr::from(i)).into_affine()).collect();
    for lg_n in (10..=lg_max).step_by(2) {
        let n = 1 << lg_n;
        let points: Vec<_> = points.iter().copied().cycle().take(n).collect();
        let bases = engine.bases(&points)?;
        // Powers of a random-looking element have all bits.
        let base = Fr::from(u64::MAX).square().square();
        let powers = iter::successors(Some(base), |last| Some(*last * base));
        let scalars: Vec<_> = powers.take(n).collect();
        let mut values = scalars.clone();
        let run = || engine.msm(&bases, &scalars).map(|_| ());
        // GPUs make the last tables of bases at the eighth use.
        median(run)?;
        let msm = median(run)?;
        let ntt = median(|| engine.ntt(&mut values, NttPlan::forward(lg_n)))?;
        println!("2^{lg_n}: MSM {msm:.3} ms, NTT {ntt:.3} ms");
    }
    Ok(())
}

fn median(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..15 {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
