//! Lesson 9: a program runs several operations in one call, and its intermediate values stay on the
//! server. This one commits to a polynomial f (KZG) and opens the commitment at the point z.
//!
//! `cargo run --release --example 09_programs`

mod common;

use ark_bls12_381::{Bls12_381, G2Projective};
use ark_ec::{CurveGroup, PrimeGroup, pairing::Pairing};
use capstan::client::{
    Client, Fr, G1Affine, G1Projective, InputElements, ProgramBuilder, ProgramRun, Result,
    RunOptions, Verification,
};

const N: usize = 1 << 10;

#[tokio::main]
async fn main() -> Result<()> {
    let server = common::server();
    let client = Client::connect(&server.target).await?;
    let [tau, z] = common::scalars(2)[..] else { unreachable!("two scalars") };
    let bases = client.put_bases(&powers_of(tau)).await?;

    // Each step is checked as it is added. Vectors and points have handles of different types.
    let mut program = ProgramBuilder::new();
    let f = program.input(N as u64)?;
    let commitment = program.msm(&bases, f)?;
    let y = program.evaluate(f, z)?;
    let quotient = program.divide_by_linear(f, z)?; // (f - y) / (X - z)
    let proof = program.msm(&bases, quotient)?;
    let program = program.build()?;

    // One call: the coefficients travel once, and the quotient never leaves the server.
    let coefficients = common::scalars(N);
    let open = |program| {
        let run = ProgramRun::new(program).send_points(commitment).send(y).send_points(proof);
        run.input(f, &coefficients)
    };
    let estimate = client.estimate(&open(&program), Verification::None).await?;
    println!("values {} bytes, on {}", estimate.value_bytes, estimate.device);
    let opened = client.run(open(&program)).await?;
    for step in &opened.steps {
        println!("{:>16} {:?} {}", step.operation, step.time, step.method);
    }

    // The verifier needs only the commitment, the value, the proof, and tau times G2's generator.
    let (g1, g2) = (G1Projective::generator(), G2Projective::generator());
    let left = opened.points(commitment)?[0] - g1 * opened.vector(y)?[0];
    let right = Bls12_381::pairing(opened.points(proof)?[0], g2 * (tau - z));
    assert_eq!(Bls12_381::pairing(left, g2), right);

    // A call of a stored program sends only its id. If the server has dropped the program, the
    // client stores it again.
    let stored = client.put_program(&program).await?;
    let options = RunOptions { verify: Verification::Full, ..RunOptions::default() };
    let again = client.run_with(open(&stored), options).await?;
    assert_eq!(again.points(proof)?, opened.points(proof)?);

    // A value can stay on the server as the input of the next run.
    let kept = client.run(ProgramRun::new(&stored).input(f, &coefficients).keep(quotient)).await?;
    let kept = kept.kept(quotient)?;
    let mut tail = ProgramBuilder::new();
    let last = tail.input(2)?;
    let run = ProgramRun::new(&tail.build()?)
        .input(last, InputElements::stored(kept.id, N as u64 - 2))
        .send(last);
    // The quotient's degree is one less than that of f; its leading coefficient is the same.
    assert_eq!(client.run(run).await?.vector(last)?, [coefficients[N - 1], Fr::from(0)]);
    client.release_vector(kept.id).await
}

/// The powers of `tau` in G1. Whoever knows `tau` can forge proofs, so real setups destroy it.
fn powers_of(tau: Fr) -> Vec<G1Affine> {
    let powers = std::iter::successors(Some(Fr::from(1)), |power| Some(*power * tau)).take(N);
    let points: Vec<_> = powers.map(|power| G1Projective::generator() * power).collect();
    G1Projective::normalize_batch(&points)
}
