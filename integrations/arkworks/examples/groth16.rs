//! The two lines: `install` and `pin` make stock ark-groth16 compute its MSMs on a server.
//!
//! `cargo run --release --example groth16`, in this folder, after `./patch-ark-ec`. Without an
//! argument it starts a server in this process; give a target such as `http://host:7654` to use
//! yours.

#[path = "../../../examples/common/mod.rs"]
mod common;
#[path = "../tests/common/squarings.rs"]
mod squarings;

use std::{error::Error, time::Instant};

use ark_bls12_381::{Bls12_381, Fr};
use ark_groth16::Groth16;
use ark_snark::{CircuitSpecificSetupSNARK, SNARK};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan_arkworks::client::blocking::BlockingClient;
use squarings::Squarings;

fn main() -> Result<(), Box<dyn Error>> {
    let own_server = std::env::args().nth(1).is_none().then(common::server);
    let target = match &own_server {
        Some(server) => server.target.clone(),
        None => std::env::args().nth(1).ok_or("expected a target")?,
    };
    // For a real prover, take the randomness of the system.
    let mut rng = StdRng::seed_from_u64(7);
    let circuit = Squarings::new(1 << 14, Fr::from(3));
    let (pk, vk) = Groth16::<Bls12_381>::setup(circuit.clone(), &mut rng)?;

    let began = Instant::now();
    let proof = Groth16::<Bls12_381>::prove(&pk, circuit.clone(), &mut rng)?;
    println!("local: {:?}", began.elapsed());
    assert!(Groth16::<Bls12_381>::verify(&vk, &[circuit.result()], &proof)?);

    // These two lines are all that a prover adds. The server learns the key, which is public, and
    // then the scalars of each MSM, which are the witness: use a server that you trust.
    let server = capstan_arkworks::install(BlockingClient::connect(target)?)?;
    let pinned = server.pin(&pk)?;

    let began = Instant::now();
    let proof = Groth16::<Bls12_381>::prove(&pk, circuit.clone(), &mut rng)?;
    println!("offloaded: {:?}, {:?}", began.elapsed(), capstan_arkworks::counts());
    assert!(Groth16::<Bls12_381>::verify(&vk, &[circuit.result()], &proof)?);

    // From here on, the key is like any other: its MSMs run locally.
    drop(pinned);
    Ok(())
}
