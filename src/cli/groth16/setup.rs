//! `capstan groth16 setup`.

use std::path::PathBuf;

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, ProvingKey};
use ark_serialize::Compress;
use capstan_proofs::groth16::{ConstraintMatrices, Groth16Error, MatricesCircuit};
use clap::Args;
use serde_json::json;

use super::files;
use crate::{
    exit::Result,
    output::Ui,
    pending_file::{PendingFile, check_distinct},
    progress::TerminalProgress,
    random::{blocking, secret},
};

#[derive(Debug, Args)]
#[command(after_help = WARNING)]
pub struct SetupArgs {
    /// Circuit, compiled by circom with --prime bls12381
    #[arg(value_name = "CIRCUIT.r1cs")]
    circuit: PathBuf,
    /// File for the proving key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File for the verifying key
    #[arg(long, value_name = "FILE")]
    verifying_key: PathBuf,
    /// Compress the points: half the size, but reading one takes a square root
    #[arg(long)]
    compressed: bool,
}

const WARNING: &str = "\
Warning: this process chooses the secret numbers of the keys and then discards them. Whoever runs
the setup can keep them and forge proofs, which no verifier can detect. Use these keys for
development and tests. Real systems need a ceremony of several parties, one of whom must be
honest.";

pub async fn run(ui: Ui, args: &SetupArgs) -> Result<()> {
    check_distinct(&[&args.circuit], &[&args.key, &args.verifying_key])?;
    let matrices = files::constraints(ui, &args.circuit).await?;
    let provable = matrices.check_provable();
    provable.map_err(|error| files::failure(&args.circuit, error))?;
    // Created first, so that a folder that cannot be written to is reported at once.
    let key_file = PendingFile::create(&args.key)?;
    let verifying_key_file = PendingFile::create(&args.verifying_key)?;
    let (constraints, variables) = (matrices.constraints(), matrices.variables());
    let public_inputs = matrices.public_variables() - 1;
    let compress = if args.compressed { Compress::Yes } else { Compress::No };

    let spinner = TerminalProgress::spinner(ui, "generating the keys");
    let key = blocking(move || generate(&matrices)).await?;
    spinner.set_message("writing the keys");
    files::serialize(&verifying_key_file, key.vk.clone(), compress).await?;
    files::serialize(&key_file, key, compress).await?;
    key_file.commit()?;
    verifying_key_file.commit()?;
    drop(spinner);

    let (key, verifying_key) = (args.key.display(), args.verifying_key.display());
    if ui.json {
        return ui.print_json(&json!({
            "constraints": constraints, "variables": variables, "public_inputs": public_inputs,
            "key": key.to_string(), "verifying_key": verifying_key.to_string(),
            "warning": WARNING,
        }));
    }
    ui.print(&format!(
        "{constraints} constraints, {variables} variables, {public_inputs} public inputs\n\
         proving key: {key}\nverifying key: {verifying_key}\n\n{WARNING}\n"
    ))
}

fn generate(matrices: &ConstraintMatrices) -> Result<ProvingKey<Bls12_381>> {
    let circuit = MatricesCircuit::new(matrices);
    let random = &mut secret()?;
    let key = Groth16::<Bls12_381>::generate_random_parameters_with_reduction(circuit, random);
    Ok(key.map_err(Groth16Error::from)?)
}
