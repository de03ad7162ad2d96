//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the house rules.
#![deny(unsafe_code, missing_docs)]

pub mod curve;
pub mod error;

#[cfg(feature = "server")]
pub mod engine;
#[cfg(feature = "server")]
pub mod verify;
#[cfg(feature = "wire")]
pub mod wire;
