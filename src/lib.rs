//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the structure.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(all(feature = "server", feature = "cli"))]
mod embedded;
#[cfg(feature = "formats")]
pub mod formats;
#[cfg(feature = "groth16")]
pub mod groth16;
#[cfg(feature = "client")]
pub mod kzg;

#[cfg(feature = "server")]
#[doc(inline)]
pub use capstan_engine::engines as engine;
#[cfg(all(feature = "server", feature = "cli", not(feature = "internals")))]
use capstan_gpu::device;
#[cfg(all(feature = "cli", not(feature = "internals")))]
use capstan_identity as identity;
#[doc(inline)]
pub use capstan_math::{curve, error, sparse};
#[cfg(all(feature = "client", not(feature = "internals")))]
use capstan_math::{field, gf2, operation, program};
#[cfg(all(feature = "client", not(feature = "internals")))]
use capstan_proto as wire;
#[cfg(all(feature = "client", not(feature = "internals")))]
use capstan_region as region;
#[cfg(feature = "server")]
#[doc(inline)]
pub use capstan_server::{config, grpc as server, telemetry};

// Public for this crate's own tests and benchmarks only.
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_engine::{buffer, exec, integers, ops, sync, verify};
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_gpu::{device, gf2_elimination, msm, ntt, ntt31};
#[cfg(all(any(feature = "server", feature = "cli"), feature = "internals"))]
#[doc(inline)]
pub use capstan_identity as identity;
#[cfg(feature = "internals")]
#[doc(inline)]
pub use capstan_math::{field, gf2, operation, program};
#[cfg(all(any(feature = "client", feature = "server"), feature = "internals"))]
#[doc(inline)]
pub use capstan_proto as wire;
#[cfg(all(any(feature = "client", feature = "server"), feature = "internals"))]
#[doc(inline)]
pub use capstan_region as region;
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_server::{jobs, store, tenant, worker};

/// Compiles the code examples of the first page and of `docs/clients.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/clients.md")]
pub struct Pages;
