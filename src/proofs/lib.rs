//! Proof systems on top of Capstan's client, and the files of their points, scalars and keys.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

pub mod formats;
#[cfg(feature = "groth16")]
pub mod groth16;
pub mod kzg;

use capstan_client as client;
#[cfg(feature = "groth16")]
use capstan_math::sparse;
use capstan_math::{curve, error};
