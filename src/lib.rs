//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the structure.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod config;
#[cfg(all(feature = "server", feature = "cli"))]
mod embedded;
#[cfg(feature = "formats")]
pub mod formats;
#[cfg(feature = "groth16")]
pub mod groth16;
#[cfg(feature = "client")]
pub mod kzg;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod telemetry;

#[cfg(feature = "server")]
#[doc(inline)]
pub use capstan_engine::engines as engine;
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_engine::{buffer, exec, ops, sync, verify};
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_gpu::device;
#[doc(inline)]
pub use capstan_math::{curve, error, sparse};
#[cfg(all(feature = "wire", not(feature = "internals")))]
use capstan_math::{field, program};
#[cfg(all(feature = "client", not(feature = "internals")))]
use capstan_math::{gf2, operation};
#[cfg(all(feature = "wire", not(feature = "internals")))]
use capstan_proto as wire;
#[cfg(all(any(feature = "client", feature = "server"), not(feature = "internals")))]
use capstan_region as region;

// The daemon reads the file of tokens, and the command line writes it.
#[cfg(all(feature = "tokens", not(feature = "internals")))]
#[cfg_attr(not(all(feature = "server", feature = "cli")), allow(dead_code, unused_imports))]
mod identity;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod jobs;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod store;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod tenant;
#[cfg(all(feature = "server", not(feature = "internals")))]
mod worker;

// Public for this crate's own tests and benchmarks only.
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_engine::{buffer, exec, integers, ops, sync, verify};
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_gpu::{device, gf2_elimination, msm, ntt, ntt31};
#[cfg(feature = "internals")]
#[doc(inline)]
pub use capstan_math::{field, gf2, operation, program};
#[cfg(all(feature = "wire", feature = "internals"))]
#[doc(inline)]
pub use capstan_proto as wire;
#[cfg(all(any(feature = "client", feature = "server"), feature = "internals"))]
#[doc(inline)]
pub use capstan_region as region;
#[cfg(all(feature = "tokens", feature = "internals"))]
#[allow(missing_docs)]
pub mod identity;
#[cfg(all(feature = "server", feature = "internals"))]
#[allow(missing_docs)]
pub mod jobs;
#[cfg(all(feature = "server", feature = "internals"))]
#[allow(missing_docs)]
pub mod store;
#[cfg(all(feature = "server", feature = "internals"))]
#[allow(missing_docs)]
pub mod tenant;
#[cfg(all(feature = "server", feature = "internals"))]
#[allow(missing_docs)]
pub mod worker;

/// Compiles the code examples of the first page and of `docs/clients.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/clients.md")]
pub struct Pages;
