//! Files of circom, and keys and proofs of arkworks.

use std::fs;

use ark_bls12_381::Bls12_381;
use ark_ec::{AffineRepr, CurveGroup};
use ark_groth16::{Proof, VerifyingKey};
use ark_serialize::CanonicalSerialize;
use capstan::{
    curve::{Fr, G1Affine, G2Affine},
    groth16::files::{
        read_proof, read_proving_key, read_r1cs, read_verifying_key, read_wtns, write_r1cs,
        write_wtns,
    },
};

use super::{SECRET, assert_harmless};
use crate::driver::{SMALL, Target};

fn seed(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/repeated_square.");
    fs::read(format!("{path}{name}")).expect("the file is in the repository")
}

fn check_r1cs(input: &[u8]) {
    match read_r1cs(input) {
        Ok(matrices) => {
            let written = write_r1cs(&matrices).expect("as small as the input");
            let again = read_r1cs(&written).expect("a written file");
            assert_eq!(again, matrices);
        }
        Err(error) => assert_harmless(&error),
    }
}

fn check_wtns(input: &[u8]) {
    match read_wtns(input) {
        Ok(values) => {
            let written = write_wtns(&values).expect("as small as the input");
            assert_eq!(read_wtns(&written).expect("a written file"), values);
        }
        Err(error) => assert_harmless(&error),
    }
}

/// The first byte selects the kind of file.
fn check_keys(input: &[u8]) {
    let Some((selector, file)) = input.split_first() else { return };
    let error = match selector % 3 {
        0 => read_proving_key(file).err(),
        1 => match read_verifying_key(file) {
            Ok(key) => {
                assert!(key.gamma_abc_g1.iter().all(is_valid));
                None
            }
            Err(error) => Some(error),
        },
        _ => match read_proof(file) {
            Ok(proof) => {
                assert!(is_valid(&proof.a) && is_valid(&proof.c));
                None
            }
            Err(error) => Some(error),
        },
    };
    if let Some(error) = error {
        assert_harmless(&error);
    }
}

fn is_valid(point: &G1Affine) -> bool {
    point.is_on_curve() && point.is_in_correct_subgroup_assuming_on_curve()
}

#[test]
fn constraint_systems() {
    let seeds = vec![seed("r1cs")];
    let words = &["r1cs", "wtns"];
    let name = "constraint_systems";
    Target { name, seeds, words, check: check_r1cs, cases: 5_000, memory: SMALL }.run();
}

#[test]
fn witnesses() {
    let mut secret = seed("wtns");
    // The last value: its highest byte stays zero, so that it is canonical.
    let at = secret.len() - 32;
    secret[at..at + SECRET.len()].copy_from_slice(SECRET.as_bytes());
    let seeds = vec![seed("wtns"), secret];
    let name = "witnesses";
    Target { name, seeds, words: &["wtns"], check: check_wtns, cases: 5_000, memory: SMALL }.run();
}

#[test]
fn keys_and_proofs() {
    let (g1, g2) = (G1Affine::generator(), G2Affine::generator());
    let proof = Proof::<Bls12_381> { a: g1, b: g2, c: g1 };
    // Different points: with equal ones, proofs could be forged.
    let in_g1 = |factor: u64| (g1 * Fr::from(factor)).into_affine();
    let in_g2 = |factor: u64| (g2 * Fr::from(factor)).into_affine();
    let vk: VerifyingKey<Bls12_381> = VerifyingKey {
        alpha_g1: g1,
        beta_g2: g2,
        gamma_g2: in_g2(2),
        delta_g2: in_g2(3),
        gamma_abc_g1: vec![in_g1(2), in_g1(3)],
    };
    let mut key = vec![0];
    vk.serialize_uncompressed(&mut key).expect("memory");
    // The halves of beta and delta in G1.
    [g1, in_g1(3)].serialize_uncompressed(&mut key).expect("memory");
    for _ in 0..2 {
        vec![g1, G1Affine::zero()].serialize_uncompressed(&mut key).expect("memory");
    }
    vec![g2].serialize_uncompressed(&mut key).expect("memory");
    for _ in 0..2 {
        vec![g1].serialize_uncompressed(&mut key).expect("memory");
    }
    let mut seeds = vec![key, vec![1], vec![2]];
    vk.serialize_compressed(&mut seeds[1]).expect("memory");
    proof.serialize_compressed(&mut seeds[2]).expect("memory");
    let name = "keys_and_proofs";
    Target { name, seeds, words: &[], check: check_keys, cases: 2_000, memory: SMALL }.run();
}
