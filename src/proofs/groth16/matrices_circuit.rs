//! A circuit of arkworks from a constraint system, which ark-groth16 can make keys for.

use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystemRef, LinearCombination, Result, SynthesisError, Variable,
};

use super::ConstraintMatrices;
use crate::curve::Fr;

/// A circuit whose constraint system is the given one, with the same variables, rows and terms.
#[derive(Clone, Copy)]
pub struct MatricesCircuit<'a> {
    matrices: &'a ConstraintMatrices,
    assignment: Option<&'a [Fr]>,
}

impl<'a> MatricesCircuit<'a> {
    /// A circuit without values, for generating keys.
    pub fn new(matrices: &'a ConstraintMatrices) -> Self {
        Self { matrices, assignment: None }
    }

    /// The same circuit with values: one, the public inputs, and the witness.
    #[must_use]
    pub fn with_assignment(self, assignment: &'a [Fr]) -> Self {
        Self { assignment: Some(assignment), ..self }
    }

    fn value(&self, variable: usize) -> Result<Fr> {
        let value = self.assignment.and_then(|values| values.get(variable));
        value.copied().ok_or(SynthesisError::AssignmentMissing)
    }
}

impl ConstraintSynthesizer<Fr> for MatricesCircuit<'_> {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<()> {
        let public = self.matrices.public_variables();
        let mut variables = vec![Variable::One];
        for index in 1..public {
            variables.push(system.new_input_variable(|| self.value(index))?);
        }
        for index in public..self.matrices.variables() {
            variables.push(system.new_witness_variable(|| self.value(index))?);
        }
        // Built from their terms: `+` would move terms of the same or a smaller variable.
        let combination = |row: &[(Fr, usize)]| {
            let terms = row.iter().map(|(coefficient, index)| (*coefficient, variables[*index]));
            LinearCombination(terms.collect())
        };
        for index in 0..self.matrices.constraints() {
            let [a, b, c] = self.matrices.constraint(index).map(|row| combination(&row));
            system.enforce_r1cs_constraint(|| a, || b, || c)?;
        }
        Ok(())
    }
}
