//! Circuits of real gadgets: the prover knows a leaf of a Merkle tree, and the path to its root.

use ark_bls12_381::Fr;
use ark_crypto_primitives::{
    crh::{
        TwoToOneCRHSchemeGadget,
        poseidon::constraints::{CRHParametersVar, TwoToOneCRHGadget},
        sha256::constraints::{DigestVar, Sha256Gadget, UnitVar},
    },
    sponge::poseidon::{PoseidonConfig, find_poseidon_ark_and_mds},
};
use ark_ff::{PrimeField, UniformRand};
use ark_r1cs_std::{
    GR1CSVar, alloc::AllocVar, boolean::Boolean, eq::EqGadget, fields::fp::FpVar,
    select::CondSelectGadget,
};
use ark_relations::gr1cs::{
    ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, Result as R1csResult,
};
use ark_std::rand::{Rng, SeedableRng, rngs::StdRng};

/// The hash of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathHash {
    /// Its wires are uniform elements.
    Poseidon,
    /// Most of its wires are 0 or 1, as in most circuits in use.
    Sha256,
}

/// A path of this many levels.
#[derive(Debug, Clone, Copy)]
pub struct MerklePath {
    pub hash: PathHash,
    /// None for SHA-256: the leaf is hashed alone, which takes about half of a level's constraints.
    pub levels: usize,
    /// Of the leaf, the other nodes and the directions.
    pub seed: u64,
}

impl MerklePath {
    /// The longest path with at most 2^`lg_n` constraints and public variables; `None` if the
    /// shortest one has more.
    pub fn longest(hash: PathHash, lg_n: u32) -> Option<Self> {
        let size = |levels| {
            let system = ConstraintSystem::new_ref();
            let path = Self { hash, levels, seed: 0 };
            path.generate_constraints(system.clone()).expect("a circuit");
            system.finalize();
            system.num_constraints() + system.num_instance_variables()
        };
        // All levels after the first have the same size.
        let (max, one, two) = (1 << lg_n, size(1), size(2));
        let levels = match (one <= max, two <= max) {
            (false, _) => {
                let hashes_leaf = hash == PathHash::Sha256 && size(0) <= max;
                return hashes_leaf.then_some(Self { hash, levels: 0, seed: 0 });
            }
            (true, false) => 1,
            (true, true) => 2 + (max - two) / (size(3) - two),
        };
        Some(Self { hash, levels, seed: 0 })
    }
}

impl ConstraintSynthesizer<Fr> for MerklePath {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> R1csResult<()> {
        let mut random = StdRng::seed_from_u64(self.seed);
        match self.hash {
            PathHash::Poseidon => poseidon_path(&system, self.levels, &mut random),
            PathHash::Sha256 => sha256_path(&system, self.levels, &mut random),
        }
    }
}

fn poseidon_path(
    system: &ConstraintSystemRef<Fr>,
    levels: usize,
    random: &mut StdRng,
) -> R1csResult<()> {
    let parameters = CRHParametersVar { parameters: poseidon() };
    let mut node = FpVar::new_witness(system.clone(), || Ok(Fr::rand(random)))?;
    for _ in 0..levels {
        let sibling = FpVar::new_witness(system.clone(), || Ok(Fr::rand(random)))?;
        let is_right = Boolean::new_witness(system.clone(), || Ok(random.r#gen::<bool>()))?;
        let left = FpVar::conditionally_select(&is_right, &sibling, &node)?;
        let right = FpVar::conditionally_select(&is_right, &node, &sibling)?;
        node = TwoToOneCRHGadget::compress(&parameters, &left, &right)?;
    }
    let root = FpVar::new_input(system.clone(), || node.value())?;
    root.enforce_equal(&node)
}

/// Parameters for 128 bits of security over Fr (Grassi et al., 2021): two elements are absorbed.
fn poseidon() -> PoseidonConfig<Fr> {
    let (rate, full_rounds, partial_rounds, alpha) = (2, 8, 57, 5);
    let bits = Fr::MODULUS_BIT_SIZE.into();
    let (ark, mds) =
        find_poseidon_ark_and_mds(bits, rate, full_rounds as u64, partial_rounds as u64, 0);
    PoseidonConfig::new(full_rounds, partial_rounds, alpha, mds, ark, rate, 1)
}

fn sha256_path(
    system: &ConstraintSystemRef<Fr>,
    levels: usize,
    random: &mut StdRng,
) -> R1csResult<()> {
    let mut digest = || -> Vec<u8> { (0..32).map(|_| random.r#gen()).collect() };
    let mut node = DigestVar::new_witness(system.clone(), || Ok(digest()))?;
    for _ in 0..levels {
        let sibling = DigestVar::new_witness(system.clone(), || Ok(digest()))?;
        let is_right = Boolean::new_witness(system.clone(), || Ok(digest()[0] & 1 == 1))?;
        let left = DigestVar::conditionally_select(&is_right, &sibling, &node)?;
        let right = DigestVar::conditionally_select(&is_right, &node, &sibling)?;
        node = Sha256Gadget::compress(&UnitVar::default(), &left, &right)?;
    }
    if levels == 0 {
        node = Sha256Gadget::digest(&node.0)?;
    }
    let root = DigestVar::new_input(system.clone(), || node.value().map(|bytes| bytes.to_vec()))?;
    root.enforce_equal(&node)
}
