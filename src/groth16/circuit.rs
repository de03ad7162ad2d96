//! Constraint systems and assignments of circuits of arkworks.

use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, OptimizationGoal, R1CS_PREDICATE_LABEL, SynthesisMode,
};
use zeroize::Zeroizing;

use super::{ConstraintMatrices, Groth16Error};
use crate::client::Fr;

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
    let system = ConstraintSystem::new_ref();
    system.set_optimization_goal(OptimizationGoal::Constraints);
    let (construct_matrices, generate_lc_assignments) = (true, false);
    system.set_mode(SynthesisMode::Prove { construct_matrices, generate_lc_assignments });
    circuit.generate_constraints(system.clone())?;
    system.finalize();
    let mut predicates = system.to_matrices()?;
    let matrices = predicates.remove(R1CS_PREDICATE_LABEL).and_then(|all| all.try_into().ok());
    let is_r1cs = predicates.values().all(|others| others.iter().all(Vec::is_empty));
    let matrices = matrices.filter(|_| is_r1cs).ok_or(Groth16Error::NotR1cs)?;
    let mut assignment = Zeroizing::new(system.instance_assignment()?);
    let public = assignment.len();
    let witness = Zeroizing::new(system.witness_assignment()?);
    // Without a copy of the elements in memory that is freed without being wiped.
    let mut all = Zeroizing::new(Vec::with_capacity(public + witness.len()));
    all.append(&mut assignment);
    all.extend_from_slice(&witness);
    let matrices = ConstraintMatrices::new(matrices, public, all.len())?;
    Ok(SynthesizedCircuit { matrices, assignment: all })
}
