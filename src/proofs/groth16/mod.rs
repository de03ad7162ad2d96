//! Groth16 proofs (Groth, 2016) in one call: the assignment goes to a server, a fleet or the engine
//! in this process, and four sums come back.
//!
//! Proofs are those of the crate `ark-groth16`, byte for byte: the same key, constraint system,
//! assignment and random numbers give the same proof. The blinding stays in this process.
//!
//! ```no_run
//! # async fn lesson<C: ark_relations::gr1cs::ConstraintSynthesizer<capstan::curve::Fr>>(
//! #     circuit: C, key: ark_groth16::ProvingKey<ark_bls12_381::Bls12_381>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use ark_std::rand::{SeedableRng, rngs::StdRng};
//! use capstan::{
//!     client::Client,
//!     groth16::{Groth16Key, Groth16Prover, synthesize},
//! };
//!
//! let client = Client::connect("http://127.0.0.1:7654").await?;
//! let synthesized = synthesize(circuit)?;
//!
//! // Sent once; later only ids and assignments are.
//! let key = Groth16Key::register(&client, &key, synthesized.matrices).await?;
//!
//! // The blinding must be secret. ark-std has `OsRng` only with its feature `getrandom`.
//! let mut seed = [0; 32];
//! getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
//! let prover = Groth16Prover::new(&client, &key);
//! let proof = prover.prove(synthesized.assignment, &mut StdRng::from_seed(seed)).await?;
//! # Ok(()) }
//! ```
//!
//! Proofs are made in a runtime of tokio, also by an engine, which blocks the thread that polls.
//!
//! For many proofs, [`Groth16Prover::prove_circuits`] synthesizes the next circuit while a
//! proof is computed, and [`Groth16Prover::prove_batch`] makes small proofs in one call.
//!
//! - `matrices`: the constraint system. `circuit`: constraint system and assignment of a circuit of
//!   arkworks. `matrices_circuit`: the reverse, for keys of systems that were read.
//! - `key`: a key that a runner keeps; `objects`: its points and matrices;
//!   `key_upload`: puts them. `program`: what is run. `blinding` hides the witness in its
//!   sums, with products by `product_sum`, while the last sum is computed: `early_sums`
//!   collects the others. `prover`: proofs.
//! - [`files`]: constraint systems and witnesses of circom; keys and proofs of arkworks.
//! - `weak_key`: keys with which proofs could be forged. `error`: errors.

mod blinding;
mod circuit;
mod early_sums;
mod error;
pub mod files;
mod key;
mod key_upload;
mod matrices;
mod matrices_circuit;
mod objects;
mod product_sum;
mod program;
mod prover;
mod weak_key;

pub use self::{
    blinding::Blinding,
    circuit::{SynthesizedCircuit, assign, synthesize},
    error::{Groth16Error, RunnerError},
    key::Groth16Key,
    matrices::ConstraintMatrices,
    matrices_circuit::MatricesCircuit,
    prover::{Groth16Prover, ReportedProof},
    weak_key::{WeakKey, check_verifying_key},
};
