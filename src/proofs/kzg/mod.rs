//! KZG commitments (Kate, Zaverucha and Goldberg, 2010): commit to polynomials and open them on a
//! server, a fleet or the engine in this process, check openings here. Each operation is one call;
//! see [`KzgProver`] and [`KzgVerifier`].
//!
//! A polynomial is its coefficients, the constant one first. A commitment is a multi-scalar
//! multiplication of the coefficients and the powers of a secret tau in G1.
//!
//! ```no_run
//! # async fn lesson(g1: Vec<capstan::curve::G1Affine>, g2: Vec<capstan::curve::G2Affine>,
//! # f: Vec<capstan::curve::Fr>) -> Result<(), capstan::client::ClientError> {
//! use capstan::{
//!     client::{Client, Fr},
//!     kzg::{KzgKey, KzgProver, KzgVerifier},
//! };
//!
//! let client = Client::connect("http://127.0.0.1:7654").await?;
//! let key = KzgKey::register(&client, &g1).await?; // sent once, then referred to by id
//! let prover = KzgProver::new(&client, &key);
//!
//! let z = Fr::from(5);
//! let (commitment, opening) = prover.commit_and_open(&f, z).await?;
//!
//! let verifier = KzgVerifier::new(&g1, &g2)?;
//! assert!(verifier.verify(commitment, z, opening.value, opening.proof)?);
//! # Ok(()) }
//! ```
//!
//! - `key`: the powers of tau that a runner keeps.
//! - `prover`: what a runner computes. `verifier`: pairings.

mod key;
mod prover;
mod verifier;

/// The coefficients of a polynomial, the constant one first: elements in memory or, with a client,
/// a vector that the server keeps or shares.
pub use crate::runner::InputRow as KzgPolynomial;

pub use self::{
    key::KzgKey,
    prover::{KzgOpening, KzgProver},
    verifier::KzgVerifier,
};
