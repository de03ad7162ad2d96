//! The powers of tau that a runner keeps.

use crate::{
    builder::ProgramBases,
    curve::G1Affine,
    runner::{ProgramRunner, PutOptions},
};

/// The powers of tau in G1 that a server, a fleet or the engine in this process keeps: 1, tau,
/// tau^2, and so on, times the generator.
#[derive(Debug, Clone)]
pub struct KzgKey {
    bases: ProgramBases<G1Affine>,
}

impl KzgKey {
    /// Puts the powers, unless a server has them.
    ///
    /// Errors: those of [`ProgramRunner::put_points`].
    pub async fn register<R: ProgramRunner>(
        runner: &R,
        powers: &[G1Affine],
    ) -> Result<Self, R::Error> {
        Ok(Self { bases: runner.put_points(PutOptions::default(), powers).await? })
    }

    /// Powers that have been put already, such as a `BasesHandle` of the client.
    pub fn from_bases(bases: impl Into<ProgramBases<G1Affine>>) -> Self {
        Self { bases: bases.into() }
    }

    /// The powers.
    pub fn bases(&self) -> &ProgramBases<G1Affine> {
        &self.bases
    }

    /// The most coefficients that a polynomial may have.
    pub fn coefficients_max(&self) -> u64 {
        self.bases.len()
    }
}
