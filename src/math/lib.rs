//! The mathematical ground floor of Capstan: the fields and the curve that it computes over, sparse
//! matrices, programs and their checks, and the errors of all floors above. It knows neither
//! devices nor gRPC.
//!
//! Use the package `capstan`: this one belongs to it, and may change with each release.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

pub mod builder;
pub mod curve;
pub mod error;
pub mod field;
pub mod gf2;
mod hash;
pub mod operation;
pub mod program;
pub mod runner;
pub mod sparse;
pub mod text;
