//! `capstan groth16 verify`.

use std::path::PathBuf;

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, Proof, VerifyingKey, prepare_verifying_key};
use clap::Args;
use serde_json::json;

use super::files;
use crate::{
    client::Fr,
    exit::{CliFailure, Exit, Result, fail},
    output::Ui,
    random::blocking,
};

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Proof, in arkworks' serialization
    #[arg(value_name = "PROOF")]
    proof: PathBuf,
    /// Verifying key, in arkworks' serialization
    #[arg(long, value_name = "FILE")]
    verifying_key: PathBuf,
    /// Public outputs and inputs: a JSON list of decimal numbers in strings, as snarkjs writes it
    #[arg(long, value_name = "FILE.json")]
    public: PathBuf,
}

/// Errors: `Exit::NotVerified` if the proof does not verify.
pub async fn run(ui: Ui, args: &VerifyArgs) -> Result<()> {
    let proof = files::proof(ui, &args.proof).await?;
    let key = files::verifying_key(ui, &args.verifying_key).await?;
    let inputs = files::public_inputs(ui, &args.public)?;
    let (expected, got) = (key.gamma_abc_g1.len(), inputs.len());
    if got + 1 != expected {
        let (key, public) = (args.verifying_key.display(), args.public.display());
        let expected = expected.saturating_sub(1);
        let message = format!("{public}: {got} public inputs, but {key} is for {expected}");
        return fail(Exit::Data, message);
    }
    let verifies = blocking(move || verifies(&key, &proof, &inputs)).await;
    if ui.json {
        ui.print_json(&json!({ "verified": verifies }))?;
    }
    match verifies {
        true if ui.json => Ok(()),
        true => ui.print("the proof verifies\n"),
        // The report on standard output says it.
        false if ui.json => Err(CliFailure::new(Exit::NotVerified, "")),
        false => {
            fail(Exit::NotVerified, format!("{}: the proof does not verify", args.proof.display()))
        }
    }
}

/// The key is for as many public inputs.
pub fn verifies(key: &VerifyingKey<Bls12_381>, proof: &Proof<Bls12_381>, inputs: &[Fr]) -> bool {
    let prepared = prepare_verifying_key(key);
    Groth16::<Bls12_381>::verify_proof(&prepared, proof, inputs).unwrap_or(false)
}
