//! Lesson 11: a Groth16 proof in one call, from a circuit of arkworks.
//!
//! `cargo run --release --features groth16 --example 11_groth16`

mod common;

use std::time::Instant;

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, prepare_verifying_key};
use ark_relations::{
    gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, Result as R1csResult},
    lc,
};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr},
    groth16::{Groth16Key, Groth16Prover, synthesize},
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The prover knows an x such that squaring it a thousand times gives y.
#[derive(Clone, Copy)]
struct RepeatedSquare {
    x: Fr,
}

const SQUARINGS: usize = 1000;

impl RepeatedSquare {
    fn y(&self) -> Fr {
        (0..SQUARINGS).fold(self.x, |power, _| power * power)
    }
}

impl ConstraintSynthesizer<Fr> for RepeatedSquare {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> R1csResult<()> {
        let y = system.new_input_variable(|| Ok(self.y()))?;
        let (mut value, mut power) = (self.x, system.new_witness_variable(|| Ok(self.x))?);
        for index in 0..SQUARINGS {
            value *= value;
            let is_last = index == SQUARINGS - 1;
            let square = if is_last { y } else { system.new_witness_variable(|| Ok(value))? };
            system.enforce_r1cs_constraint(
                || lc!() + power,
                || lc!() + power,
                || lc!() + square,
            )?;
            power = square;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    // Programs that make proofs must use random numbers of the system; this one is a lesson.
    let mut random = StdRng::seed_from_u64(1);
    let circuit = RepeatedSquare { x: Fr::from(3) };
    let arkworks_key =
        Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, &mut random)?;

    let server = common::server();
    let client = Client::connect(&server.target).await?;

    // The key's points, the circuit's matrices and the program of a proof are sent once; the server
    // names them by content.
    let synthesized = synthesize(circuit)?;
    let key = Groth16Key::register(&client, &arkworks_key, synthesized.matrices).await?;

    // A proof sends the assignment; four sums come back. `with_check` refuses an assignment that
    // does not satisfy the constraints, and names the first that does not hold.
    let prover = Groth16Prover::new(&client, &key).with_check();
    let begun = Instant::now();
    let proof = prover.prove(synthesized.assignment, &mut random).await?;
    println!("proof after {:?}", begun.elapsed());

    let verifying_key = prepare_verifying_key(&arkworks_key.vk);
    let verifies = |y| Groth16::<Bls12_381>::verify_proof(&verifying_key, &proof, &[y]);
    assert!(verifies(circuit.y())? && !verifies(circuit.x)?);
    println!("the verifier of ark-groth16 accepts it");
    Ok(())
}
