//! Proof systems over any runner of programs, and the files of their points, scalars and keys. A
//! runner is a client of a server, a fleet, or the engine in this process.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

pub mod formats;
#[cfg(feature = "groth16")]
pub mod groth16;
pub mod kzg;

#[cfg(feature = "groth16")]
use capstan_math::sparse;
use capstan_math::{builder, curve, error, runner};
