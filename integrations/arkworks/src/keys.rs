//! The bases in a prover's key.

use std::{borrow::Cow, ops::Deref};

use ark_bls12_381::{g1, g2};
use ark_ec::short_weierstrass::Affine;
use capstan::client::{G1Affine, G2Affine};

/// Bases that lie one after another in memory.
#[derive(Debug, Clone, Copy)]
pub enum BasesSlice<'a> {
    /// Points of G1.
    G1(&'a [G1Affine]),
    /// Points of G2.
    G2(&'a [G2Affine]),
}

/// What [`crate::Offload::pin`] takes: points, or a key that holds some.
pub trait PinnedKey {
    /// The slices that a prover passes to MSMs, whole or in part.
    fn bases(&self) -> Vec<BasesSlice<'_>>;
}

// Named by their configurations: rustc does not see that the aliases `G1Affine` and `G2Affine`
// differ.
impl PinnedKey for [Affine<g1::Config>] {
    fn bases(&self) -> Vec<BasesSlice<'_>> {
        vec![BasesSlice::G1(self)]
    }
}

impl PinnedKey for [Affine<g2::Config>] {
    fn bases(&self) -> Vec<BasesSlice<'_>> {
        vec![BasesSlice::G2(self)]
    }
}

impl<A> PinnedKey for Vec<A>
where
    [A]: PinnedKey,
{
    fn bases(&self) -> Vec<BasesSlice<'_>> {
        self.deref().bases()
    }
}

impl<A: Clone> PinnedKey for Cow<'_, [A]>
where
    [A]: PinnedKey,
{
    fn bases(&self) -> Vec<BasesSlice<'_>> {
        self.deref().bases()
    }
}

#[cfg(feature = "groth16")]
impl PinnedKey for ark_groth16::ProvingKey<ark_bls12_381::Bls12_381> {
    fn bases(&self) -> Vec<BasesSlice<'_>> {
        vec![
            BasesSlice::G1(&self.h_query),
            BasesSlice::G1(&self.l_query),
            BasesSlice::G1(&self.a_query),
            BasesSlice::G1(&self.b_g1_query),
            BasesSlice::G2(&self.b_g2_query),
        ]
    }
}
