//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the structure.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod curve;
#[cfg(feature = "cuda")]
pub mod device;
pub mod error;
#[cfg(feature = "formats")]
pub mod formats;
#[cfg(feature = "cuda")]
pub mod msm;
#[cfg(feature = "cuda")]
pub mod ntt;

#[cfg(feature = "server")]
pub mod buffer;
#[cfg(feature = "server")]
pub mod config;
#[cfg(all(feature = "server", feature = "cli"))]
pub(crate) mod embedded;
#[cfg(feature = "server")]
pub mod engine;
#[cfg(feature = "server")]
pub mod jobs;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod telemetry;
#[cfg(feature = "server")]
pub mod verify;
#[cfg(feature = "wire")]
pub mod wire;

/// Compiles the README's code examples.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
