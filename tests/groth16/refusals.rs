//! Keys, constraint systems and assignments that do not belong together.

use std::collections::BTreeSet;

use ark_bls12_381::{Bls12_381, Fq};
use ark_ec::{AffineRepr, CurveGroup};
use ark_groth16::{Proof, ProvingKey, VerifyingKey, prepare_verifying_key};
use ark_serialize::CanonicalSerialize;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr, G1Affine, G2Affine},
    groth16::{
        ConstraintMatrices, Groth16Error, Groth16Key, Groth16Prover,
        files::{read_proving_key, read_verifying_key},
        synthesize,
    },
    server::ServerSettings,
};
use zeroize::Zeroizing;

use crate::groth16::{ArkProver, Powers, ProofFixture, common::serve, proving_key};

fn message<T>(refused: Result<T, Groth16Error>) -> String {
    refused.err().map_or("accepted".to_owned(), |error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_assignments_are_refused() {
    let circuit = Powers::new(7, 4, 0);
    let mut fixture = ProofFixture::new(circuit).await;
    let prover = Groth16Prover::new(&fixture.client, &fixture.key).with_check();
    let right = synthesize(circuit).unwrap().assignment;
    let mut wrong = right.clone();
    let last = wrong.len() - 1;
    wrong[last] += Fr::from(1);
    let refused = message(prover.prove(wrong, &mut fixture.random).await);
    assert_eq!(refused, "the assignment does not satisfy constraint 3");
    let short = Zeroizing::new(right[1..].to_vec());
    let refused = message(prover.prove(short, &mut fixture.random).await);
    let expected = "the assignment has 6 elements, but the constraint system needs 7";
    assert_eq!(refused, expected);
    let mut wrong = right.clone();
    wrong[0] = Fr::from(2);
    // Also in a batch, and without the check of constraints.
    let prover = Groth16Prover::new(&fixture.client, &fixture.key);
    let refused = message(prover.prove_batch(vec![right, wrong], &mut fixture.random).await);
    assert_eq!(refused, "the assignment does not begin with 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_other_constraint_systems_are_refused() {
    let mut fixture = ProofFixture::new(Powers::new(7, 4, 0)).await;
    let needs = "but the constraint system needs 7";
    let cases = [
        (Powers::new(7, 5, 0), format!("a_query of the key has 8 elements, {needs}")),
        (Powers::new(7, 1, 3), format!("h_query of the key has 3 elements, {needs}")),
    ];
    for (other, expected) in cases {
        let key = proving_key(other, &mut fixture.random);
        let matrices = fixture.key.matrices().clone();
        let refused = message(Groth16Key::register(&fixture.client, &key, matrices).await);
        assert_eq!(refused, expected);
    }
}

/// Without its last constraint, the system has a key of the same lengths.
#[tokio::test(flavor = "multi_thread")]
async fn proofs_of_a_key_of_another_constraint_system_are_refused_if_they_are_checked() {
    let circuit = Powers::new(7, 5, 0);
    let mut fixture = ProofFixture::new(circuit).await;
    let matrices = fixture.key.matrices();
    let shorter = [0, 1, 2].map(|matrix| -> Vec<_> {
        let rows = 0..matrices.constraints() - 1;
        rows.map(|row| matrices.constraint(row)[matrix].clone()).collect()
    });
    let (public, variables) = (matrices.public_variables(), matrices.variables());
    let shorter = ConstraintMatrices::new(shorter, public, variables).unwrap();
    let key = Groth16Key::register(&fixture.client, &fixture.proving_key, shorter).await.unwrap();
    let assignment = synthesize(circuit).unwrap().assignment;
    let prover = Groth16Prover::new(&fixture.client, &key).with_check();
    let refused = message(prover.prove(assignment, &mut fixture.random).await);
    let expected = "the proof does not verify: the key was made for another constraint system, or";
    assert!(refused.starts_with(expected), "{refused}");
    let stored = async || fixture.client.list_matrices().await.unwrap().len();
    let before = stored().await;
    key.discard(&fixture.client).await;
    assert!(stored().await < before, "what was new is released");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_larger_than_the_store_are_refused_with_their_bytes() {
    let circuit = Powers::new(7, 40, 0);
    let settings = ServerSettings { store_bytes_max: 4096, ..ServerSettings::default() };
    let server = serve(settings);
    let client = Client::connect(&server.target).await.unwrap();
    let key = proving_key(circuit, &mut StdRng::seed_from_u64(5));
    let matrices = synthesize(circuit).unwrap().matrices;
    let refused = message(Groth16Key::register(&client, &key, matrices).await);
    let expected = "bytes, but the server stores at most 4096 (store_bytes_max)";
    assert!(refused.starts_with("the key takes ") && refused.ends_with(expected), "{refused}");
    assert!(client.list(None).await.unwrap().is_empty());
}

#[test]
fn wrong_matrices_are_refused() {
    let row = |variable| vec![(Fr::from(1), variable)];
    let new =
        |matrices, public, variables| message(ConstraintMatrices::new(matrices, public, variables));
    let matrices = || [vec![row(0)], vec![row(1)], vec![row(2)]];
    assert_eq!(new(matrices(), 1, 3), "accepted");
    assert_eq!(new(matrices(), 1, 2), "row 0 of matrix c names variable 2, but there are 2");
    let mut uneven = matrices();
    uneven[1].push(row(0));
    let refused = new(uneven, 1, 3);
    assert_eq!(refused, "matrix b has 2 elements, but the constraint system needs 1");
    assert_eq!(
        new(matrices(), 4, 3),
        "the number of public variables is 4, but there are 3 variables"
    );
    assert_eq!(
        new(matrices(), 0, 3),
        "the number of public variables is 0, but there are 3 variables"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_would_not_blind_and_bad_parts_are_refused() {
    let fixture = ProofFixture::new(Powers::new(7, 4, 0)).await;
    let register = async |change: fn(&mut ProvingKey<Bls12_381>)| {
        let mut key = fixture.proving_key.clone();
        change(&mut key);
        let matrices = fixture.key.matrices().clone();
        message(Groth16Key::register(&fixture.client, &key, matrices).await)
    };
    let infinity = "of the key is the point at infinity";
    let refused = register(|key| key.delta_g1 = G1Affine::zero()).await;
    assert_eq!(refused, format!("delta_g1 {infinity}"));
    let refused = register(|key| key.vk.delta_g2 = G2Affine::zero()).await;
    assert_eq!(refused, format!("delta_g2 {infinity}"));
    let off_the_curve = |key: &mut ProvingKey<Bls12_381>| key.l_query[1].x += Fq::from(1);
    let refused = register(off_the_curve).await;
    assert!(
        refused.starts_with("cannot put l_query and h_query on the server: points[1]: "),
        "{refused}"
    );
}

/// The proof that does not verify shows that the check is useful.
#[tokio::test(flavor = "multi_thread")]
async fn keys_with_a_half_of_another_key_are_refused() {
    let circuit = Powers::new(7, 4, 0);
    let mut fixture = ProofFixture::new(circuit).await;
    let other = proving_key(circuit, &mut fixture.random);
    type Change = fn(&mut ProvingKey<Bls12_381>, &ProvingKey<Bls12_381>);
    let cases: [(&str, Change); 5] = [
        ("beta_g1", |key, other| key.beta_g1 = other.beta_g1),
        ("beta_g2", |key, other| key.vk.beta_g2 = other.vk.beta_g2),
        ("delta_g1", |key, _| key.delta_g1 = -key.delta_g1),
        ("delta_g2", |key, other| key.vk.delta_g2 = other.vk.delta_g2),
        ("both of G1", |key, other| {
            (key.beta_g1, key.delta_g1) = (other.beta_g1, other.delta_g1);
        }),
    ];
    for (half, change) in cases {
        let mut key = fixture.proving_key.clone();
        change(&mut key, &other);
        let random = &mut fixture.random;
        let proof = ArkProver::create_random_proof_with_reduction(circuit, &key, random).unwrap();
        let prepared = prepare_verifying_key(&key.vk);
        assert!(!ArkProver::verify_proof(&prepared, &proof, &[circuit.y()]).unwrap(), "{half}");
        let matrices = fixture.key.matrices().clone();
        let registered = Groth16Key::register(&fixture.client, &key, matrices).await;
        let mut file = Vec::new();
        key.serialize_uncompressed(&mut file).unwrap();
        let read = read_proving_key(&file).map_err(Groth16Error::from);
        for refused in [message(registered), message(read)] {
            let expected = "beta_g1 and delta_g1 of the key do not belong to its beta_g2 and delta";
            assert!(refused.starts_with(expected), "{half}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_leaves_nothing_that_the_server_did_not_have() {
    let mut fixture = ProofFixture::new(Powers::new(7, 4, 0)).await;
    let client = fixture.client.clone();
    let stored = async || {
        let bases = client.list(None).await.unwrap().into_iter().map(|info| info.id.0);
        let matrices = client.list_matrices().await.unwrap().into_iter().map(|info| info.id.0);
        bases.chain(matrices).collect::<BTreeSet<_>>()
    };
    let before = stored().await;
    // It shares the matrices and a_query with the fixture's key, and its b_g1_query is new.
    let mut key = fixture.proving_key.clone();
    let other = proving_key(Powers::new(7, 4, 0), &mut fixture.random);
    key.b_g1_query = other.b_g1_query;
    key.l_query[1].x += Fq::from(1);
    let matrices = fixture.key.matrices().clone();
    let refused = message(Groth16Key::register(&client, &key, matrices.clone()).await);
    assert!(refused.starts_with("cannot put l_query and h_query on the server"), "{refused}");
    assert_eq!(stored().await, before);
    key.l_query[1].x -= Fq::from(1);
    Groth16Key::register(&client, &key, matrices).await.unwrap();
    assert_eq!(stored().await.len(), before.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn circuits_without_constraints_are_refused() {
    let fixture = ProofFixture::new(Powers::new(7, 4, 0)).await;
    let empty = ConstraintMatrices::new([vec![], vec![], vec![]], 1, 2).unwrap();
    let (client, key) = (&fixture.client, &fixture.proving_key);
    let refused = message(Groth16Key::register(client, key, empty).await);
    assert_eq!(refused, "the circuit has no constraints");
}

/// Made without the witness, from the verifying key and the public input only.
fn forged_proof(key: &VerifyingKey<Bls12_381>, public: Fr) -> Proof<Bls12_381> {
    let c = -(key.gamma_abc_g1[0] + key.gamma_abc_g1[1] * public).into_affine();
    Proof { a: key.alpha_g1, b: key.beta_g2, c }
}

/// The forged proof shows that the check is needed.
#[tokio::test(flavor = "multi_thread")]
async fn keys_with_which_proofs_can_be_forged_are_refused() {
    let fixture = ProofFixture::new(Powers::new(7, 4, 0)).await;
    let mut without_phase_2 = fixture.proving_key.clone();
    without_phase_2.vk.delta_g2 = without_phase_2.vk.gamma_g2;
    let (prepared, public) = (prepare_verifying_key(&without_phase_2.vk), Fr::from(12345));
    let forged = forged_proof(&without_phase_2.vk, public);
    assert!(ArkProver::verify_proof(&prepared, &forged, &[public]).unwrap());

    type Change = fn(&mut VerifyingKey<Bls12_381>);
    let pair = |first: &str, second: &str| {
        format!("{first} and {second} of the key are equal or opposite")
    };
    let infinity = |part: &str| format!("{part} of the key is the point at infinity");
    let cases: [(Change, String); 12] = [
        (|key| key.delta_g2 = key.gamma_g2, pair("gamma_g2", "delta_g2")),
        (|key| key.delta_g2 = -key.gamma_g2, pair("gamma_g2", "delta_g2")),
        (|key| key.beta_g2 = key.gamma_g2, pair("beta_g2", "gamma_g2")),
        (|key| key.beta_g2 = -key.delta_g2, pair("beta_g2", "delta_g2")),
        (|key| key.alpha_g1 = G1Affine::zero(), infinity("alpha_g1")),
        (|key| key.beta_g2 = G2Affine::zero(), infinity("beta_g2")),
        (|key| key.gamma_g2 = G2Affine::zero(), infinity("gamma_g2")),
        (|key| key.delta_g2 = G2Affine::zero(), infinity("delta_g2")),
        (|key| key.gamma_abc_g1[0] = G1Affine::zero(), infinity("gamma_abc_g1[0]")),
        (|key| key.gamma_abc_g1[1] = G1Affine::zero(), infinity("gamma_abc_g1[1]")),
        (
            |key| key.gamma_abc_g1[1] = -key.gamma_abc_g1[0],
            pair("gamma_abc_g1[1]", "gamma_abc_g1[0]"),
        ),
        (|key| key.gamma_abc_g1[0] = key.alpha_g1, pair("gamma_abc_g1[0]", "alpha_g1")),
    ];
    for (change, expected) in cases {
        let mut key = fixture.proving_key.clone();
        change(&mut key.vk);
        let matrices = fixture.key.matrices().clone();
        let registered = Groth16Key::register(&fixture.client, &key, matrices).await;
        let (mut file, mut verifying_key) = (Vec::new(), Vec::new());
        key.serialize_compressed(&mut file).unwrap();
        key.vk.serialize_compressed(&mut verifying_key).unwrap();
        let read = read_proving_key(&file).map_err(Groth16Error::from);
        let read_verifying_key = read_verifying_key(&verifying_key).map_err(Groth16Error::from);
        for refused in [message(registered), message(read), message(read_verifying_key)] {
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }
}
