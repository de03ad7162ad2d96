//! Reads and writes the commands' files. Errors name the file.

use std::path::Path;

use ark_bls12_381::Bls12_381;
use ark_ff::PrimeField;
use ark_groth16::{Proof, ProvingKey, VerifyingKey};
use ark_serialize::{CanonicalSerialize, Compress, SerializationError};
use capstan_math::text::without_bom;
use capstan_proofs::groth16::{ConstraintMatrices, Groth16Error, files};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    client::Fr,
    exit::{CliFailure, Exit, Result},
    formats::{
        FileFormat,
        scalars::{self, Notation},
    },
    input,
    output::Ui,
    pending_file::PendingFile,
    random::blocking,
};

pub async fn constraints(ui: Ui, path: &Path) -> Result<ConstraintMatrices> {
    read(ui, path, files::read_r1cs).await
}

pub async fn witness(ui: Ui, path: &Path) -> Result<Zeroizing<Vec<Fr>>> {
    read(ui, path, |bytes| Ok(files::read_wtns(bytes)?)).await
}

pub async fn proving_key(ui: Ui, path: &Path) -> Result<ProvingKey<Bls12_381>> {
    read(ui, path, |bytes| Ok(files::read_proving_key(bytes)?)).await
}

pub async fn verifying_key(ui: Ui, path: &Path) -> Result<VerifyingKey<Bls12_381>> {
    read(ui, path, |bytes| Ok(files::read_verifying_key(bytes)?)).await
}

pub async fn proof(ui: Ui, path: &Path) -> Result<Proof<Bls12_381>> {
    read(ui, path, |bytes| Ok(files::read_proof(bytes)?)).await
}

/// Reads public inputs as snarkjs writes them: a JSON list of decimal numbers in strings.
pub fn public_inputs(ui: Ui, path: &Path) -> Result<Vec<Fr>> {
    let bytes = input::read(ui, path)?;
    let invalid =
        |problem: &str| CliFailure::new(Exit::Data, format!("{}: {problem}", path.display()));
    let expected = "expected a JSON list of decimal numbers in strings";
    let list: Vec<String> = serde_json::from_slice(without_bom(&bytes)).map_err(|_| {
        match FileFormat::detect(&bytes) {
            Some(format) if format != FileFormat::JsonList => {
                invalid(&format!("{expected}, not {format}"))
            }
            _ => invalid(expected),
        }
    })?;
    let mut inputs = Vec::with_capacity(list.len());
    for (index, text) in list.iter().enumerate() {
        let element = decimal(text).ok_or_else(|| CliFailure {
            index: Some(index as u64),
            ..invalid(&format!("[{index}]: expected a decimal number below the prime"))
        })?;
        inputs.push(element);
    }
    Ok(inputs)
}

fn decimal(text: &str) -> Option<Fr> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let bytes = scalars::parse(Notation::Decimal, text, false).ok()?;
    Some(Fr::from_le_bytes_mod_order(&bytes))
}

/// The JSON of public inputs, as snarkjs writes it.
pub fn public_json(inputs: &[Fr]) -> Value {
    inputs.iter().map(ToString::to_string).collect()
}

/// Names the file if its content is to blame.
pub fn failure(path: &Path, error: Groth16Error) -> CliFailure {
    let failure = CliFailure::from(error);
    if failure.exit == Exit::Data { failure.in_file(path.display()) } else { failure }
}

/// Writes arkworks' serialization.
pub async fn serialize(
    file: &PendingFile,
    value: impl CanonicalSerialize + Send + 'static,
    compress: Compress,
) -> Result<()> {
    let writer = file.writer()?;
    let written = blocking(move || value.serialize_with_mode(writer, compress)).await;
    written.map_err(|error| match error {
        SerializationError::IoError(error) => file.failure(&error),
        other => CliFailure::new(Exit::Failed, other.to_string()),
    })
}

/// Reads all of a file and decodes it on a thread that may block.
async fn read<T: Send + 'static>(
    ui: Ui,
    path: &Path,
    decode: fn(&[u8]) -> Result<T, Groth16Error>,
) -> Result<T> {
    let file = path.to_owned();
    blocking(move || {
        let bytes = input::read(ui, &file)?;
        decode(&bytes).map_err(|error| failure(&file, error))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_numbers_that_are_not_canonical() {
        let prime = Fr::MODULUS.to_string();
        assert_eq!(decimal("12"), Some(Fr::from(12)));
        for text in ["", "-1", "0x2", " 1", "1 2", "1\n2", "+1", &prime, &"9".repeat(99)] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
