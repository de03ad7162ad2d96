//! A circuit for the tests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ark_relations::{
    gr1cs::{ConstraintSynthesizer, ConstraintSystemRef, Result, SynthesisError, Variable},
    lc,
};
use capstan::client::Fr;

/// The prover knows x with x^(2^squarings) + 2 x = y, for the public y. `unused` variables are in
/// no constraint, so that the key has points at infinity.
#[derive(Debug, Clone, Copy)]
pub struct Powers {
    pub x: Fr,
    pub squarings: usize,
    pub unused: usize,
}

impl Powers {
    pub fn new(x: u64, squarings: usize, unused: usize) -> Self {
        Self { x: x.into(), squarings, unused }
    }

    /// The public input.
    pub fn y(&self) -> Fr {
        let power = (0..self.squarings).fold(self.x, |power, _| power * power);
        power + self.x + self.x
    }
}

impl ConstraintSynthesizer<Fr> for Powers {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<()> {
        let y = system.new_input_variable(|| Ok(self.y()))?;
        for _ in 0..self.unused {
            let _unused = system.new_witness_variable(|| Ok(Fr::from(3)))?;
        }
        let x = system.new_witness_variable(|| Ok(self.x))?;
        let (mut value, mut power) = (self.x, x);
        for _ in 0..self.squarings {
            value *= value;
            let square = system.new_witness_variable(|| Ok(value))?;
            system.enforce_r1cs_constraint(
                || lc!() + power,
                || lc!() + power,
                || lc!() + square,
            )?;
            power = square;
        }
        let two = Fr::from(2);
        system.enforce_r1cs_constraint(
            || lc!() + power + (two, x),
            || lc!() + Variable::One,
            || lc!() + y,
        )
    }
}

/// Two numbers and their product, all public.
#[derive(Debug, Clone, Copy)]
pub struct PublicProduct {
    pub factors: [Fr; 2],
}

impl PublicProduct {
    pub fn new(first: u64, second: u64) -> Self {
        Self { factors: [first.into(), second.into()] }
    }

    pub fn public(&self) -> [Fr; 3] {
        let [first, second] = self.factors;
        [first, second, first * second]
    }
}

impl ConstraintSynthesizer<Fr> for PublicProduct {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<()> {
        let [first, second, product] = self.public();
        let first = system.new_input_variable(|| Ok(first))?;
        let second = system.new_input_variable(|| Ok(second))?;
        let product = system.new_input_variable(|| Ok(product))?;
        system.enforce_r1cs_constraint(|| lc!() + first, || lc!() + second, || lc!() + product)
    }
}

/// A circuit that counts how many were synthesized.
pub struct Counted {
    pub circuit: Powers,
    pub synthesized: Arc<AtomicUsize>,
}

impl ConstraintSynthesizer<Fr> for Counted {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<()> {
        self.synthesized.fetch_add(1, Ordering::SeqCst);
        self.circuit.generate_constraints(system)
    }
}

/// A circuit, some of whose values may be missing.
pub struct Failing {
    pub circuit: Powers,
    pub fails: bool,
}

impl ConstraintSynthesizer<Fr> for Failing {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<()> {
        if self.fails {
            let _missing =
                system.new_witness_variable(|| Err(SynthesisError::AssignmentMissing))?;
        }
        self.circuit.generate_constraints(system)
    }
}
