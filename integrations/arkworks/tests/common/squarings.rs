//! A circuit: a secret number, squared again and again, gives a public result.

use ark_bls12_381::Fr;
use ark_ff::Field;
use ark_relations::{
    gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, Result},
    lc,
};

/// The statement "I know x such that squaring and adding one `rounds` times gives the result".
#[derive(Clone)]
pub struct Squarings {
    rounds: usize,
    secret: Fr,
}

impl Squarings {
    pub fn new(rounds: usize, secret: Fr) -> Self {
        Self { rounds, secret }
    }

    /// The public input.
    pub fn result(&self) -> Fr {
        (0..self.rounds).fold(self.secret, |x, _| x.square() + Fr::ONE)
    }
}

impl ConstraintSynthesizer<Fr> for Squarings {
    fn generate_constraints(self, cs: ConstraintSystemRef<Fr>) -> Result<()> {
        let result = cs.new_input_variable(|| Ok(self.result()))?;
        let mut value = self.secret;
        let mut variable = cs.new_witness_variable(|| Ok(value))?;
        for round in 1..=self.rounds {
            value = value.square() + Fr::ONE;
            let next = match round == self.rounds {
                true => result,
                false => cs.new_witness_variable(|| Ok(value))?,
            };
            let one = lc!() + (Fr::ONE, ark_relations::gr1cs::Variable::One);
            cs.enforce_r1cs_constraint(
                || lc!() + variable,
                || lc!() + variable,
                || lc!() + next - one,
            )?;
            variable = next;
        }
        Ok(())
    }
}
