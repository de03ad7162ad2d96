//! The powers of tau on a server.

use crate::client::{BasesHandle, Client, G1Affine, Result};

/// The powers of tau in G1 on a server: 1, tau, tau^2, and so on, times the generator.
#[derive(Debug, Clone)]
pub struct KzgKey {
    bases: BasesHandle<G1Affine>,
}

impl KzgKey {
    /// Sends the powers, unless the server has them.
    ///
    /// Errors: those of [`Client::put_bases`].
    pub async fn register(client: &Client, powers: &[G1Affine]) -> Result<Self> {
        Ok(Self { bases: client.put_bases(powers).await? })
    }

    /// Powers that are on the server already.
    pub fn from_bases(bases: BasesHandle<G1Affine>) -> Self {
        Self { bases }
    }

    /// The powers on the server.
    pub fn bases(&self) -> &BasesHandle<G1Affine> {
        &self.bases
    }

    /// The most coefficients that a polynomial may have.
    pub fn coefficients_max(&self) -> u64 {
        self.bases.len()
    }
}
