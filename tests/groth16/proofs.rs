//! Proofs that equal those of ark-groth16, and that its verifier accepts.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ark_ff::{One, UniformRand, Zero};
use ark_groth16::prepare_verifying_key;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fleet, Fr, Progress, PutOptions, RunOptions, Verification},
    engine::{Engine, EngineOptions},
    groth16::{
        Blinding, Groth16Error, Groth16Key, Groth16Prover, SynthesizedCircuit, assign, synthesize,
    },
    runner::ProgramRunner,
};
use futures_util::StreamExt;

use crate::groth16::{
    ArkProver, Counted, Failing, Powers, ProofFixture, PublicProduct,
    common::server,
    merkle::{MerklePath, PathHash},
};

/// Sizes whose constraints and public inputs fill a domain, and sizes that do not.
#[tokio::test(flavor = "multi_thread")]
async fn proofs_equal_those_of_ark_groth16() {
    for (squarings, unused) in [(1, 0), (5, 0), (6, 3), (40, 1)] {
        let mut fixture = ProofFixture::new(Powers::new(7, squarings, unused)).await;
        let verifying_key = prepare_verifying_key(&fixture.proving_key.vk);
        let (zero, random) = (Fr::zero(), Fr::rand(&mut fixture.random));
        for (x, r, s) in [(7, random, random + random), (8, zero, random), (0, zero, zero)] {
            let circuit = Powers::new(x, squarings, unused);
            let key = &fixture.proving_key;
            let expected = ArkProver::create_proof_with_reduction(circuit, key, r, s).unwrap();
            let assignment = synthesize(circuit).unwrap().assignment;
            let options = RunOptions { verify: Verification::Full, ..RunOptions::default() };
            let prover = Groth16Prover::new(&fixture.client, &fixture.key).with_check();
            let prover = prover.with_options(options);
            let proof = prover.prove_blinded(assignment, Blinding { r, s }).await.unwrap();
            assert_eq!(proof, expected, "{circuit:?}");
            let verifies = |y| ArkProver::verify_proof(&verifying_key, &proof, &[y]).unwrap();
            assert!(verifies(circuit.y()) && !verifies(circuit.y() + Fr::from(1)));
        }
    }
}

/// The engine in this process, and a fleet of servers of which neither has the key.
#[tokio::test(flavor = "multi_thread")]
async fn every_runner_makes_the_same_proofs() {
    let fixture = ProofFixture::new(Powers::new(7, 40, 1)).await;
    let options = EngineOptions { threads: 2, gpus: false, ..EngineOptions::default() };
    prove_on(&Engine::with(options).unwrap(), &fixture).await;
    let servers = [server(), server()];
    let clients = servers.each_ref().map(|server| Client::builder(&server.target));
    prove_on(&Fleet::connect(clients).await.unwrap(), &fixture).await;
}

async fn prove_on(runner: &impl ProgramRunner, fixture: &ProofFixture) {
    let circuit = Powers::new(9, 40, 1);
    let SynthesizedCircuit { matrices, assignment, .. } = synthesize(circuit).unwrap();
    let key = Groth16Key::register(runner, &fixture.proving_key, matrices).await.unwrap();
    let (r, s) = (Fr::from(5), Fr::from(6));
    let expected =
        ArkProver::create_proof_with_reduction(circuit, &fixture.proving_key, r, s).unwrap();
    for verify in [Verification::None, Verification::Probabilistic, Verification::Full] {
        let options = RunOptions { verify, ..RunOptions::default() };
        let prover = Groth16Prover::new(runner, &key).with_check().with_options(options);
        let proof = prover.prove_blinded(assignment.clone(), Blinding { r, s }).await.unwrap();
        assert_eq!(proof, expected, "{verify:?}");
        let batch = vec![assignment.clone(), assignment.clone()];
        let proofs = prover.prove_batch(batch, &mut StdRng::seed_from_u64(3)).await.unwrap();
        assert_eq!(proofs.len(), 2);
    }
}

/// `l_query` of their keys has no points.
#[tokio::test(flavor = "multi_thread")]
async fn circuits_without_private_variables_are_proved() {
    let circuit = PublicProduct::new(6, 7);
    let mut fixture = ProofFixture::new(circuit).await;
    let verifying_key = prepare_verifying_key(&fixture.proving_key.vk);
    let prover = Groth16Prover::new(&fixture.client, &fixture.key).with_check();
    let random = || StdRng::seed_from_u64(11);
    let assignment = || synthesize(circuit).unwrap().assignment;
    let proof = prover.prove(assignment(), &mut random()).await.unwrap();
    let key = &fixture.proving_key;
    let expected =
        ArkProver::create_random_proof_with_reduction(circuit, key, &mut random()).unwrap();
    assert_eq!(proof, expected);
    let several = vec![assignment(), assignment()];
    for proof in prover.prove_batch(several, &mut fixture.random).await.unwrap() {
        let mut public = circuit.public();
        assert!(ArkProver::verify_proof(&verifying_key, &proof, &public).unwrap());
        public[2] += Fr::from(1);
        assert!(!ArkProver::verify_proof(&verifying_key, &proof, &public).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_random_numbers_give_the_same_proof() {
    let circuit = Powers::new(3, 9, 0);
    let fixture = ProofFixture::new(circuit).await;
    let key = &fixture.proving_key;
    let random = || StdRng::seed_from_u64(11);
    let expected =
        ArkProver::create_random_proof_with_reduction(circuit, key, &mut random()).unwrap();
    let prover = Groth16Prover::new(&fixture.client, &fixture.key);
    let assignment = synthesize(circuit).unwrap().assignment;
    assert_eq!(prover.prove(assignment, &mut random()).await.unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_proofs_are_made_in_one_call() {
    let circuits = [2, 3, 5].map(|x| Powers::new(x, 12, 1));
    let mut fixture = ProofFixture::new(circuits[0]).await;
    let verifying_key = prepare_verifying_key(&fixture.proving_key.vk);
    let assignments = circuits.map(|circuit| synthesize(circuit).unwrap().assignment).into();
    let prover = Groth16Prover::new(&fixture.client, &fixture.key);
    let proofs = prover.prove_batch(assignments, &mut fixture.random).await.unwrap();
    assert_eq!(proofs.len(), 3);
    for (proof, circuit) in proofs.iter().zip(circuits) {
        assert!(ArkProver::verify_proof(&verifying_key, proof, &[circuit.y()]).unwrap());
    }
    assert_eq!(prover.prove_batch(vec![], &mut fixture.random).await.unwrap(), []);
}

/// Whether the parts are sent or the server has them.
#[tokio::test(flavor = "multi_thread")]
async fn registration_reports_progress_over_all_parts() {
    let circuit = Powers::new(4, 30, 5);
    let fixture = ProofFixture::new(circuit).await;
    let other = server();
    let empty = Client::connect(&other.target).await.unwrap();
    for client in [&empty, &fixture.client] {
        let reports = Arc::<Mutex<Vec<_>>>::default();
        let noted = reports.clone();
        let progress: Progress = Arc::new(move |done, all| noted.lock().unwrap().push((done, all)));
        let options =
            PutOptions { progress: Some(progress), label: "square".into(), ..Default::default() };
        let matrices = synthesize(circuit).unwrap().matrices;
        let registered =
            Groth16Key::register_with(client, options, &fixture.proving_key, matrices).await;
        registered.unwrap();
        let reports = reports.lock().unwrap();
        let &(last, total) = reports.last().unwrap();
        assert!(reports.iter().all(|&(done, all)| done <= all && all == total), "{reports:?}");
        assert!(reports.is_sorted() && last == total && total > 0, "{reports:?}");
    }
    let labels = empty.list(None).await.unwrap().into_iter().map(|info| info.label);
    assert!(labels.into_iter().all(|label| label.starts_with("square: ")));
}

/// By a second client, or when a program starts again.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_be_registered_again() {
    let circuit = Powers::new(4, 3, 0);
    let mut fixture = ProofFixture::new(circuit).await;
    let count = || async { fixture.client.list(None).await.unwrap().len() };
    let before = count().await;
    let matrices = synthesize(circuit).unwrap().matrices;
    let again = Groth16Key::register(&fixture.client, &fixture.proving_key, matrices).await;
    assert_eq!(count().await, before);
    let key = again.unwrap();
    let prover = Groth16Prover::new(&fixture.client, &key);
    let assignment = synthesize(circuit).unwrap().assignment;
    let proof = prover.prove(assignment, &mut fixture.random).await.unwrap();
    let verifying_key = prepare_verifying_key(&fixture.proving_key.vk);
    assert!(ArkProver::verify_proof(&verifying_key, &proof, &[circuit.y()]).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_is_synthesized_while_the_one_before_is_proved() {
    let circuits = [2, 3, 5].map(|x| Powers::new(x, 12, 1));
    let mut fixture = ProofFixture::new(circuits[0]).await;
    let prover = Groth16Prover::new(&fixture.client, &fixture.key);
    let synthesized = Arc::new(AtomicUsize::new(0));
    let given = circuits.map(|circuit| Counted { circuit, synthesized: synthesized.clone() });
    let mut proofs = pin!(prover.prove_circuits(given, &mut fixture.random));
    for proved in 1..=circuits.len() {
        proofs.next().await.unwrap().unwrap();
        // Nobody asks for the next proof yet.
        let ahead = circuits.len().min(proved + 1);
        let wait = async {
            while synthesized.load(Ordering::SeqCst) < ahead {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(waited.is_ok(), "circuit {ahead} waits for a proof");
    }
}

/// The third circuit cannot be synthesized: the next one is proved all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_circuit_that_cannot_be_synthesized_does_not_end_the_proofs() {
    let circuits = [2, 3, 5, 7].map(|x| Powers::new(x, 12, 1));
    let mut fixture = ProofFixture::new(circuits[0]).await;
    let verifying_key = prepare_verifying_key(&fixture.proving_key.vk);
    let prover = Groth16Prover::new(&fixture.client, &fixture.key);
    let given = circuits.map(|circuit| Failing { circuit, fails: circuit.x == Fr::from(5) });
    let proofs: Vec<_> = prover.prove_circuits(given, &mut fixture.random).collect().await;
    assert_eq!(proofs.len(), 4);
    for (index, (proof, circuit)) in proofs.into_iter().zip(circuits).enumerate() {
        match proof {
            Ok(proof) => {
                let verifies = ArkProver::verify_proof(&verifying_key, &proof, &[circuit.y()]);
                assert!(verifies.unwrap() && index != 2);
            }
            Err(error) => assert!(matches!(error, Groth16Error::Synthesis(_)) && index == 2),
        }
    }
}

#[test]
fn assignments_need_no_matrices() {
    let circuit = MerklePath::longest(PathHash::Poseidon, 10).unwrap();
    assert_eq!(assign(circuit).unwrap(), synthesize(circuit).unwrap().assignment);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_of_a_real_gadget_equals_that_of_ark_groth16() {
    let circuit = MerklePath::longest(PathHash::Poseidon, 10).unwrap();
    let fixture = ProofFixture::new(circuit).await;
    let random = || StdRng::seed_from_u64(13);
    let circuit = MerklePath { seed: 1, ..circuit };
    let key = &fixture.proving_key;
    let expected =
        ArkProver::create_random_proof_with_reduction(circuit, key, &mut random()).unwrap();
    let synthesized = synthesize(circuit).unwrap();
    let root = synthesized.assignment[1];
    let prover = Groth16Prover::new(&fixture.client, &fixture.key).with_check();
    let proof = prover.prove(synthesized.assignment, &mut random()).await.unwrap();
    assert_eq!(proof, expected);
    let verifying_key = prepare_verifying_key(&key.vk);
    assert!(ArkProver::verify_proof(&verifying_key, &proof, &[root]).unwrap());
}

/// Most wires of the circuit are bits.
#[test]
fn an_assignment_of_a_circuit_of_bits_satisfies_it() {
    let circuit = MerklePath { hash: PathHash::Sha256, levels: 1, seed: 2 };
    let synthesized = synthesize(circuit).unwrap();
    synthesized.matrices.check(&synthesized.assignment).unwrap();
    let bits = synthesized.assignment.iter().filter(|wire| wire.is_zero() || wire.is_one());
    assert!(bits.count() * 10 > synthesized.assignment.len() * 9);
}
