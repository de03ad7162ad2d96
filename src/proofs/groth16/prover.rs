//! Proofs.

use std::{
    iter,
    panic::resume_unwind,
    time::{Duration, Instant},
};

use ark_bls12_381::Bls12_381;
use ark_groth16::{Groth16, Proof, prepare_verifying_key};
use ark_relations::gr1cs::ConstraintSynthesizer;
use ark_std::rand::Rng;
use futures_util::stream::{self, Stream, StreamExt};
use rayon::prelude::*;
use tokio::{
    sync::oneshot,
    task::{JoinError, spawn_blocking},
};
use zeroize::Zeroizing;

use super::{
    Groth16Error, Groth16Key,
    blinding::{AssignmentSums, BlindedDelta, BlindedSums, Blinding},
    circuit::assign,
    early_sums::{EarlySums, EarlySumsSender},
    key::KeyPoints,
    program::ProofProgram,
};
use crate::{
    curve::{Fr, G1Projective},
    error::InputError,
    runner::{Execution, NewRun, ProgramRunner, RunOptions, RunStep, RunValues, Timing},
};

/// Makes proofs of one key, by the runner that has it.
pub struct Groth16Prover<'a, R> {
    runner: &'a R,
    key: &'a Groth16Key,
    options: RunOptions,
    checks: bool,
}

impl<R> Clone for Groth16Prover<'_, R> {
    fn clone(&self) -> Self {
        Self { options: self.options.clone(), ..*self }
    }
}

/// A proof, and what it took.
#[derive(Debug, Clone)]
pub struct ReportedProof {
    /// The proof.
    pub proof: Proof<Bls12_381>,
    /// Time to check the assignment and the proof; zero unless the prover does.
    pub check: Duration,
    /// Duration of each phase of the call.
    pub timing: Timing,
    /// The engine and device.
    pub execution: Execution,
    /// What each step of the program took.
    pub steps: Vec<RunStep>,
    /// Time from the answer to the proof. What depends on early sums is computed before.
    pub finish: Duration,
}

/// Several proofs of one call, and what they took.
struct ProvedBatch {
    proofs: Vec<Proof<Bls12_381>>,
    check: Duration,
    call: RunValues,
    finish: Duration,
}

/// The sums of several proofs, and what computing them took.
struct SummedProofs {
    check: Duration,
    call: RunValues,
    /// When the answer had arrived.
    answered: Instant,
    sums: Vec<AssignmentSums>,
    /// Over l_query and h_query.
    of_c: Vec<G1Projective>,
}

impl<'a, R: ProgramRunner> Groth16Prover<'a, R> {
    /// A prover with the default options.
    pub fn new(runner: &'a R, key: &'a Groth16Key) -> Self {
        Self { runner, key, options: RunOptions::default(), checks: false }
    }

    /// The same prover with other options for each call.
    #[must_use]
    pub fn with_options(self, options: RunOptions) -> Self {
        Self { options, ..self }
    }

    /// Makes the prover check first that assignments satisfy the constraints, and then that the
    /// proofs verify. Without that, the proof of a wrong assignment, or with a key of another
    /// constraint system, is one that no verifier accepts.
    #[must_use]
    pub fn with_check(self) -> Self {
        Self { checks: true, ..self }
    }

    /// Makes a proof. `assignment` is one, the public inputs, and the witness.
    ///
    /// Errors: `Length`, `FirstNotOne`; `Unsatisfied` and `NotVerified` if the prover checks;
    /// `Run`.
    pub async fn prove(
        &self,
        assignment: impl Into<Zeroizing<Vec<Fr>>>,
        random: &mut impl Rng,
    ) -> Result<Proof<Bls12_381>, Groth16Error> {
        let blinding = Zeroizing::new(Blinding::draw(random));
        self.prove_blinded(assignment, *blinding).await
    }

    /// Makes a proof like [`Self::prove`], and reports what it took.
    ///
    /// Errors: those of [`Self::prove`].
    pub async fn prove_with_report(
        &self,
        assignment: impl Into<Zeroizing<Vec<Fr>>>,
        random: &mut impl Rng,
    ) -> Result<ReportedProof, Groth16Error> {
        let blindings = Zeroizing::new(vec![Blinding::draw(random)]);
        let proved = self.prove_all(&self.key.single, vec![assignment.into()], blindings);
        let ProvedBatch { mut proofs, check, call, finish } = proved.await?;
        let proof = proofs.swap_remove(0);
        let RunValues { timing, execution, steps, .. } = call;
        Ok(ReportedProof { proof, check, timing, execution, steps, finish })
    }

    /// Makes the proof that belongs to a blinding, which must never be used twice.
    ///
    /// Errors: those of [`Self::prove`].
    pub async fn prove_blinded(
        &self,
        assignment: impl Into<Zeroizing<Vec<Fr>>>,
        blinding: Blinding,
    ) -> Result<Proof<Bls12_381>, Groth16Error> {
        let blindings = Zeroizing::new(vec![blinding]);
        let proved = self.prove_all(&self.key.single, vec![assignment.into()], blindings);
        Ok(proved.await?.proofs.swap_remove(0))
    }

    /// Makes a proof of each of at most 65536 assignments, in their order and in one call: small
    /// proofs share the work of a transfer and of launching kernels.
    ///
    /// Errors: those of [`Self::prove`]; `Run` if there are too many assignments.
    pub async fn prove_batch(
        &self,
        assignments: Vec<Zeroizing<Vec<Fr>>>,
        random: &mut impl Rng,
    ) -> Result<Vec<Proof<Bls12_381>>, Groth16Error> {
        let Groth16Key { matrices, objects, lg_n, .. } = self.key;
        if assignments.is_empty() {
            return Ok(Vec::new());
        }
        // More rows than a program may have are refused when it is built.
        let rows = u32::try_from(assignments.len()).unwrap_or(u32::MAX);
        let program = ProofProgram::new(matrices, objects, *lg_n, rows);
        let program = program.map_err(run_error::<R>)?;
        let draw = || Blinding::draw(random);
        let mut blindings = Zeroizing::new(Vec::with_capacity(assignments.len()));
        blindings.extend(iter::repeat_with(draw).take(assignments.len()));
        Ok(self.prove_all(&program, assignments, blindings).await?.proofs)
    }

    /// Makes a proof of each circuit, in their order: while one is computed, the next
    /// circuit is synthesized on another thread. The stream goes on after an error.
    ///
    /// Errors: `Synthesis`; those of [`Self::prove`].
    pub fn prove_circuits<'s, C: ConstraintSynthesizer<Fr> + Send + 'static>(
        &'s self,
        circuits: impl IntoIterator<Item = C> + 's,
        random: &'s mut impl Rng,
    ) -> impl Stream<Item = Result<Proof<Bls12_381>, Groth16Error>> + 's {
        // Synthesis begins as soon as a task is made, not when it is awaited.
        let assigned = circuits.into_iter().map(|circuit| spawn_blocking(|| assign(circuit)));
        // The task of one circuit ends while that of the next one runs.
        let assigned = stream::iter(assigned).buffered(2).map(joined_task);
        assigned.then(move |assignment| {
            let blinding = Zeroizing::new(Blinding::draw(random));
            async move { self.prove_blinded(assignment?, *blinding).await }
        })
    }

    /// Makes the proofs that belong to these blindings, one for each assignment.
    async fn prove_all(
        &self,
        program: &ProofProgram,
        assignments: Vec<Zeroizing<Vec<Fr>>>,
        blindings: Zeroizing<Vec<Blinding>>,
    ) -> Result<ProvedBatch, Groth16Error> {
        let public = match self.checks {
            true => assignments.iter().map(|assignment| self.public_inputs(assignment)).collect(),
            false => Vec::new(),
        };
        let (sender, early) = EarlySumsSender::new();
        // Another task, since an engine's future blocks this one.
        let blinded = tokio::spawn(blind_early(self.key.points, blindings, early));
        let summed = self.sum(program, assignments, sender).await?;
        let (deltas, early) = joined_task(blinded.await);
        let SummedProofs { check, call, answered, sums, of_c } = summed;
        let is_valid = early.iter().map(|early| &early.sums).eq(&sums);
        let blinded = if is_valid { early } else { blind(&self.key.points, &deltas, &sums) };
        let proofs = match &of_c[..] {
            // To wake another thread would take as long.
            [of_c] => blinded.iter().map(|blinded| blinded.finish(*of_c)).collect(),
            of_c => of_c.par_iter().zip(&blinded).map(|(c, of_rest)| of_rest.finish(*c)).collect(),
        };
        let finish = answered.elapsed();
        let begun = Instant::now();
        let proofs = if self.checks { self.verified(proofs, public).await? } else { proofs };
        let check = check + if self.checks { begun.elapsed() } else { Duration::ZERO };
        Ok(ProvedBatch { proofs, check, call, finish })
    }

    fn public_inputs(&self, assignment: &[Fr]) -> Vec<Fr> {
        // One comes first. Assignments that are too short are refused later.
        assignment.get(1..self.key.matrices.public_variables()).unwrap_or_default().to_vec()
    }

    /// The proofs, which belong to these public inputs.
    ///
    /// Errors: `NotVerified`.
    async fn verified(
        &self,
        proofs: Vec<Proof<Bls12_381>>,
        public: Vec<Vec<Fr>>,
    ) -> Result<Vec<Proof<Bls12_381>>, Groth16Error> {
        let key = self.key.verifying_key.clone();
        let verify = move || {
            let key = prepare_verifying_key(&key);
            let verifies = |(proof, public): (&Proof<_>, &Vec<_>)| {
                matches!(Groth16::<Bls12_381>::verify_proof(&key, proof, public), Ok(true))
            };
            let all_verify = proofs.par_iter().zip(&public).all(verifies);
            all_verify.then_some(proofs).ok_or(Groth16Error::NotVerified)
        };
        joined_task(spawn_blocking(verify).await)
    }

    /// Computes the sums. `early` is dropped when they are known.
    async fn sum(
        &self,
        program: &ProofProgram,
        assignments: Vec<Zeroizing<Vec<Fr>>>,
        early: EarlySumsSender,
    ) -> Result<SummedProofs, Groth16Error> {
        let matrices = self.key.matrices.clone();
        for assignment in &assignments {
            matrices.check_assignment(assignment)?;
        }
        let begun = Instant::now();
        let mut assignments = match self.checks {
            true => {
                let check = move || {
                    let checked = assignments.iter().try_for_each(|one| matrices.check(one));
                    checked.map(|()| assignments)
                };
                // Off the runtime's threads: it takes milliseconds.
                joined_task(spawn_blocking(check).await)?
            }
            false => assignments,
        };
        let check = if self.checks { begun.elapsed() } else { Duration::ZERO };
        let run = NewRun::<R::Input<'_>>::new(&program.program)
            .input(program.assignment, joined(&mut assignments))
            .send_points(program.c);
        let run = early.listen(run, program);
        let call = self.runner.run_program(run, self.options.clone()).await;
        let call = call.map_err(Groth16Error::run)?;
        let answered = Instant::now();
        let [a, b_g1, of_c] = [program.a, program.b_g1, program.c]
            .map(|sums| call.points(sums).map_err(run_error::<R>));
        let (a, b_g1, of_c) = (a?, b_g1?, of_c?);
        let b_g2 = call.points(program.b_g2).map_err(run_error::<R>)?;
        let of_row = |row: usize| AssignmentSums { a: a[row], b_g1: b_g1[row], b_g2: b_g2[row] };
        let sums = (0..a.len()).map(of_row).collect();
        Ok(SummedProofs { check, call, answered, sums, of_c })
    }
}

/// Multiplies the blinding, and blinds the sums that arrive early; none if they do not.
async fn blind_early(
    points: KeyPoints,
    blindings: Zeroizing<Vec<Blinding>>,
    early: oneshot::Receiver<EarlySums>,
) -> (Vec<BlindedDelta>, Vec<BlindedSums>) {
    let multiply = move || {
        let blindings = blindings.par_iter();
        blindings.map(|by| BlindedDelta::new(&points, by)).collect::<Vec<_>>()
    };
    let deltas = joined_task(spawn_blocking(multiply).await);
    let Ok(sums) = early.await else { return (deltas, Vec::new()) };
    let blind = move || {
        let blinded = blind(&points, &deltas, &sums.of_proofs());
        (deltas, blinded)
    };
    joined_task(spawn_blocking(blind).await)
}

/// Blinds the sums of each proof.
fn blind(points: &KeyPoints, deltas: &[BlindedDelta], sums: &[AssignmentSums]) -> Vec<BlindedSums> {
    match (deltas, sums) {
        // To wake another thread would take as long.
        ([delta], [sums]) => vec![delta.blind(points, *sums)],
        _ => deltas.par_iter().zip(sums).map(|(by, sums)| by.blind(points, *sums)).collect(),
    }
}

/// An error of the checks that all runners share, as one of the runner.
fn run_error<R: ProgramRunner>(error: InputError) -> Groth16Error {
    Groth16Error::run(R::Error::from(error))
}

/// The result of a task, which is never cancelled. A panic resumes here.
fn joined_task<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

/// The rows, one after another. A single one is not copied.
fn joined(rows: &mut [Zeroizing<Vec<Fr>>]) -> Vec<Fr> {
    match rows {
        [only] => std::mem::take(&mut **only),
        rows => {
            let mut all = Vec::with_capacity(rows.iter().map(|row| row.len()).sum());
            rows.iter().for_each(|row| all.extend_from_slice(row));
            all
        }
    }
}
