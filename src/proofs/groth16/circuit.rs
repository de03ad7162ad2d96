//! Constraint systems and assignments of circuits of arkworks.

use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, OptimizationGoal,
    R1CS_PREDICATE_LABEL, SynthesisError, SynthesisMode,
};
use zeroize::Zeroizing;

use super::{ConstraintMatrices, Groth16Error};
use crate::curve::Fr;

/// A circuit with its values.
pub struct SynthesizedCircuit {
    /// The constraint system, which is the same for all values.
    pub matrices: ConstraintMatrices,
    /// One, the public inputs, and the witness.
    pub assignment: Zeroizing<Vec<Fr>>,
}

/// Synthesizes a circuit as `ark-groth16` does.
///
/// Errors: `Synthesis`; `NotR1cs` if the circuit has other constraints than products.
pub fn synthesize(
    circuit: impl ConstraintSynthesizer<Fr>,
) -> Result<SynthesizedCircuit, Groth16Error> {
    let system = system_of(circuit, true)?;
    let mut predicates = system.to_matrices()?;
    let matrices = predicates.remove(R1CS_PREDICATE_LABEL).and_then(|all| all.try_into().ok());
    let is_r1cs = predicates.values().all(|others| others.iter().all(Vec::is_empty));
    let matrices = matrices.filter(|_| is_r1cs).ok_or(Groth16Error::NotR1cs)?;
    let public = system.num_instance_variables();
    let assignment = assignment_of(system)?;
    let matrices = ConstraintMatrices::new(matrices, public, assignment.len())?;
    Ok(SynthesizedCircuit { matrices, assignment })
}

/// The assignment of a circuit whose constraint system is known. Faster than [`synthesize`], which
/// also builds the matrices.
///
/// Errors: `Synthesis`.
pub fn assign(circuit: impl ConstraintSynthesizer<Fr>) -> Result<Zeroizing<Vec<Fr>>, Groth16Error> {
    assignment_of(system_of(circuit, false)?)
}

fn system_of(
    circuit: impl ConstraintSynthesizer<Fr>,
    construct_matrices: bool,
) -> Result<ConstraintSystemRef<Fr>, Groth16Error> {
    let system = ConstraintSystem::new_ref();
    system.set_optimization_goal(OptimizationGoal::Constraints);
    let generate_lc_assignments = false;
    system.set_mode(SynthesisMode::Prove { construct_matrices, generate_lc_assignments });
    circuit.generate_constraints(system.clone())?;
    system.finalize();
    Ok(system)
}

/// Takes the values and wipes the system's. Copies that arkworks made while its vectors grew are
/// not wiped.
fn assignment_of(system: ConstraintSystemRef<Fr>) -> Result<Zeroizing<Vec<Fr>>, Groth16Error> {
    let system = system.into_inner().ok_or(SynthesisError::MissingCS)?;
    let values = system.assignments;
    let mut public = Zeroizing::new(values.instance_assignment);
    let witness = Zeroizing::new(values.witness_assignment);
    drop(Zeroizing::new(values.lc_assignment));
    let mut all = Zeroizing::new(Vec::with_capacity(public.len() + witness.len()));
    all.append(&mut public);
    all.extend_from_slice(&witness);
    Ok(all)
}
