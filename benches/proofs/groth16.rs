//! A circuit, its key, and the times of its proofs.

use std::{path::Path, time::Instant};

use ark_bls12_381::Bls12_381;
use ark_ff::{One, Zero};
use ark_groth16::{Groth16, PreparedVerifyingKey, Proof, ProvingKey, prepare_verifying_key};
use ark_relations::{
    gr1cs::{
        ConstraintSynthesizer, ConstraintSystem, OptimizationGoal, R1CS_PREDICATE_LABEL,
        SynthesisMode,
    },
    utils::matrix::Matrix,
};
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    client::{Client, Fr},
    groth16::{Blinding, ConstraintMatrices, Groth16Key, Groth16Prover, synthesize},
};
use zeroize::Zeroizing;

use crate::{
    keys::proving_key,
    merkle::MerklePath,
    record::{ProofRecord, ProofRuns},
    support::Samples,
};

pub struct ProofCase {
    circuit: MerklePath,
    /// `usual` or `uniform`.
    wires: &'static str,
    lg_n: u32,
    key: ProvingKey<Bls12_381>,
    verifying_key: PreparedVerifyingKey<Bls12_381>,
    matrices: ConstraintMatrices,
    /// The same matrices, for ark-groth16.
    ark_matrices: Vec<Matrix<Fr>>,
    assignment: Zeroizing<Vec<Fr>>,
}

impl ProofCase {
    pub fn new(circuit: MerklePath, wires: &'static str, lg_n: u32, keys: Option<&Path>) -> Self {
        let synthesized = synthesize(circuit).expect("a circuit");
        let (matrices, assignment) = (synthesized.matrices, synthesized.assignment);
        let bits = assignment.iter().filter(|wire| wire.is_zero() || wire.is_one()).count();
        println!(
            "2^{lg_n}, {wires} wires: {:?} path of {} levels, {} constraints, {} variables, of \
             which {:.0} % are 0 or 1",
            circuit.hash,
            circuit.levels,
            matrices.constraints(),
            matrices.variables(),
            100.0 * bits as f64 / assignment.len() as f64,
        );
        matrices.check(&assignment).expect("a satisfied circuit");
        let key = proving_key(circuit, keys);
        let verifying_key = prepare_verifying_key(&key.vk);
        let ark_matrices = ark_matrices(circuit);
        Self { circuit, wires, lg_n, key, verifying_key, matrices, ark_matrices, assignment }
    }

    /// Measures proofs of clients in turn, then those of ark-groth16 with the same blinding: a GPU
    /// that had no work for seconds is slower at first.
    pub async fn measure(&self, modes: &[(&Client, &str)], runs: ProofRuns, record: &ProofRecord) {
        let mut random = StdRng::seed_from_u64(2);
        let mut keys = Vec::new();
        for (client, _) in modes {
            let key = Groth16Key::register(*client, &self.key, self.matrices.clone()).await;
            keys.push(key.expect("the circuit's key"));
        }
        let mut times = vec![Samples::default(); modes.len()];
        let mut proven = Vec::new();
        for run in 0..runs.all() {
            let blinding = Blinding::draw(&mut random);
            let mut proofs = Vec::new();
            for (((client, _), key), times) in modes.iter().zip(&keys).zip(&mut times) {
                let prover = Groth16Prover::new(*client, key);
                let assignment = self.assignment.clone();
                let begun = Instant::now();
                let proof = prover.prove_blinded(assignment, blinding).await.expect("a proof");
                if run >= runs.warm_up {
                    times.0.push(begun.elapsed());
                }
                proofs.push(proof);
            }
            assert!(proofs.iter().all(|proof| *proof == proofs[0]), "all proofs are equal");
            if run >= runs.warm_up {
                proven.push((blinding, proofs.swap_remove(0)));
            }
        }
        let prover = Groth16Prover::new(modes[0].0, &keys[0]);
        let reported = prover.prove_with_report(self.assignment.clone(), &mut random).await;
        record.explain(&reported.expect("a proof"));
        proven.iter().for_each(|(_, proof)| self.verify(proof, &self.assignment));
        for ((_, mode), times) in modes.iter().zip(&times) {
            let mode = record.on_devices(format!("{}_{mode}", self.wires));
            record.add("groth16", &mode, self.lg_n, 1, times);
        }
        let mut of_arkworks = Samples::default();
        for (blinding, proof) in proven.into_iter().take(runs.of_arkworks) {
            let begun = Instant::now();
            let expected = self.prove_with_arkworks(blinding);
            of_arkworks.0.push(begun.elapsed());
            assert!(proof == expected, "ark-groth16 makes the same proof");
        }
        if !of_arkworks.0.is_empty() {
            record.add(
                "groth16",
                &format!("{}_ark_groth16", self.wires),
                self.lg_n,
                1,
                &of_arkworks,
            );
        }
    }

    /// Measures `batch` proofs of different assignments in one call.
    pub async fn measure_batch(
        &self,
        client: &Client,
        batch: usize,
        runs: ProofRuns,
        record: &ProofRecord,
    ) {
        let mut random = StdRng::seed_from_u64(3);
        let key = Groth16Key::register(client, &self.key, self.matrices.clone()).await;
        let key = key.expect("the circuit's key");
        let prover = Groth16Prover::new(client, &key);
        let circuits = (0..batch as u64).map(|seed| MerklePath { seed, ..self.circuit });
        let assignments: Vec<_> =
            circuits.map(|circuit| synthesize(circuit).expect("a circuit").assignment).collect();
        let mut times = Samples::default();
        for run in 0..runs.all() {
            let given = assignments.clone();
            let begun = Instant::now();
            let proofs = prover.prove_batch(given, &mut random).await.expect("proofs");
            if run >= runs.warm_up {
                times.0.push(begun.elapsed());
            }
            for (proof, assignment) in proofs.iter().zip(&assignments) {
                self.verify(proof, assignment);
            }
        }
        let mode = record.on_devices(format!("{}_region", self.wires));
        record.add("groth16", &mode, self.lg_n, batch, &times);
    }

    fn prove_with_arkworks(&self, blinding: Blinding) -> Proof<Bls12_381> {
        let proof = Groth16::<Bls12_381>::create_proof_with_reduction_and_matrices(
            &self.key,
            blinding.r,
            blinding.s,
            &self.ark_matrices,
            self.matrices.public_variables(),
            self.matrices.constraints(),
            &self.assignment,
        );
        proof.expect("a proof")
    }

    fn verify(&self, proof: &Proof<Bls12_381>, assignment: &[Fr]) {
        let public = &assignment[1..self.matrices.public_variables()];
        let verifies = Groth16::<Bls12_381>::verify_proof(&self.verifying_key, proof, public);
        assert!(verifies.expect("the number of public inputs"), "a proof that does not verify");
    }
}

/// The matrices as ark-groth16 takes them.
fn ark_matrices(circuit: MerklePath) -> Vec<Matrix<Fr>> {
    let system = ConstraintSystem::new_ref();
    system.set_optimization_goal(OptimizationGoal::Constraints);
    let (construct_matrices, generate_lc_assignments) = (true, false);
    system.set_mode(SynthesisMode::Prove { construct_matrices, generate_lc_assignments });
    circuit.generate_constraints(system.clone()).expect("a circuit");
    system.finalize();
    let mut matrices = system.to_matrices().expect("matrices");
    matrices.remove(R1CS_PREDICATE_LABEL).expect("products")
}
