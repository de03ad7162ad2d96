//! `capstan groth16`: which files are read, and what is said of others.

use std::{fs, mem, path::Path};

use ark_bls12_381::{Bls12_381, Fr};
use ark_ec::CurveGroup;
use ark_groth16::{Proof, ProvingKey};
use ark_serialize::{CanonicalDeserialize, CanonicalSerialize};
use capstan::groth16::files::read_r1cs;
use serde_json::Value;

use crate::cli::groth16::{CIRCUIT, FACTOR, FACTOR_WITNESS, ProofFiles, WITNESS, words};

/// All variables of the circuit are public.
const PUBLIC_PRODUCT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/public_product.r1cs");
const PUBLIC_PRODUCT_WITNESS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/public_product.wtns");

/// Of a ceremony without a contribution to phase 2, for example: gamma is delta.
#[test]
fn keys_with_which_proofs_can_be_forged_are_refused() {
    let files = ProofFiles::new();
    assert_eq!(files.prove(WITNESS, &[]).code, 0);
    let key = fs::read(&files.key).unwrap();
    let mut key = ProvingKey::<Bls12_381>::deserialize_uncompressed(key.as_slice()).unwrap();
    key.vk.delta_g2 = key.vk.gamma_g2;
    let inputs: Vec<String> = serde_json::from_slice(&fs::read(&files.public).unwrap()).unwrap();
    let input: Fr = inputs[0].parse().unwrap();
    let [constant, of_input] = key.vk.gamma_abc_g1[..] else { panic!("two points") };
    let c = -(constant + of_input * input).into_affine();
    let forged = Proof::<Bls12_381> { a: key.vk.alpha_g1, b: key.vk.beta_g2, c };
    let [mut key_file, mut verifying_key, mut proof] = [(); 3].map(|()| Vec::new());
    key.serialize_uncompressed(&mut key_file).unwrap();
    key.vk.serialize_uncompressed(&mut verifying_key).unwrap();
    forged.serialize_compressed(&mut proof).unwrap();
    fs::write(&files.key, key_file).unwrap();
    fs::write(&files.verifying_key, verifying_key).unwrap();
    fs::write(&files.proof, proof).unwrap();
    assert!(files.verifies(), "the forged proof needs a check of the key");

    let expected = "gamma_g2 and delta_g2 of the key are equal or opposite";
    words(&files.verify(&[]), 65, &["square.vk: ", expected]);
    words(&files.prove(WITNESS, &[]), 65, &["square.key: ", expected]);
    let description = files.cli.path("key.json").display().to_string();
    let line = ["groth16", "register", CIRCUIT, "--key", &files.key];
    let line = [&line[..], &["--description", &description]].concat();
    files.cli.fails(&line, 65, &["square.key: ", expected]);
    assert!(!Path::new(&description).exists());
}

/// Each file in the place of another one.
#[test]
fn files_in_the_wrong_place_are_named_with_the_expected_format() {
    let mut files = ProofFiles::new();
    assert_eq!(files.prove(WITNESS, &[]).code, 0);
    let (proof, verifying_key) = (files.proof.clone(), files.verifying_key.clone());
    (files.proof, files.verifying_key) = (verifying_key.clone(), proof.clone());
    let expected = "square.vk: not a proof in arkworks' serialization: it is a verifying key in";
    words(&files.verify(&[]), 65, &[expected]);
    (files.proof, files.verifying_key) = (proof.clone(), files.key.clone());
    let expected =
        "square.key: not a verifying key in arkworks' serialization: it is a proving key in";
    words(&files.verify(&[]), 65, &[expected]);
    files.verifying_key = verifying_key.clone();
    let public = mem::replace(&mut files.public, proof.clone());
    let expected = "square.proof: expected a JSON list of decimal numbers in strings, not a proof";
    words(&files.verify(&[]), 65, &[expected]);
    let zkey = files.cli.file("square.zkey", b"zkey\x01\0\0\0");
    (files.key, files.public) = (zkey, public);
    let expected =
        "square.zkey: not a proving key in arkworks' serialization: it is a .zkey file of snarkjs";
    words(&files.prove(WITNESS, &[]), 65, &[expected]);
    let import = ["bases", "import", &verifying_key];
    files.cli.fails(&import, 65, &["square.vk: not points", "it is a verifying key in arkworks'"]);
}

/// circom's file of the circuit, with an empty map and with none.
#[test]
fn a_constraint_system_needs_no_labels() {
    let files = ProofFiles::of(FACTOR);
    let whole = fs::read(FACTOR).unwrap();
    let matrices = read_r1cs(&whole).unwrap();
    let labels = 12 + 8 * matrices.variables();
    // circom writes the map last.
    let constraints = &whole[..whole.len() - labels];
    let empty = [constraints, &[3, 0, 0, 0], &[0; 8]].concat();
    let mut none = constraints.to_vec();
    none[8] -= 1;
    for (name, file) in
        [("empty.r1cs", &empty), ("none.r1cs", &none), ("cut.r1cs", &constraints.to_vec())]
    {
        let circuit = files.cli.file(name, file);
        let line = ["groth16", "prove", &circuit, FACTOR_WITNESS, "--key", &files.key, "--check"];
        files.cli.ok(&[&line[..], &["--proof", &files.proof, "--public", &files.public]].concat());
        assert!(files.verifies(), "{name}");
        let description = files.cli.path("key.json").display().to_string();
        let line = ["groth16", "register", &circuit, "--key", &files.key];
        files.cli.ok(&[&line[..], &["--description", &description]].concat());
    }
}

#[test]
fn a_circuit_without_private_variables_is_proved() {
    let files = ProofFiles::of(PUBLIC_PRODUCT);
    assert_eq!(files.prove(PUBLIC_PRODUCT_WITNESS, &["--check"]).code, 0);
    let public: Value = serde_json::from_slice(&fs::read(&files.public).unwrap()).unwrap();
    assert_eq!(public, serde_json::json!(["42", "6", "7"]));
    assert!(files.verifies());
    assert_eq!(files.verify(&[]).code, 0);
    fs::write(&files.public, r#"["43", "6", "7"]"#).unwrap();
    words(&files.verify(&[]), 3, &["the proof does not verify"]);
}
