//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the structure.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "server")]
pub mod config;
#[cfg(all(feature = "server", feature = "cli"))]
mod embedded;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod telemetry;

#[cfg(feature = "client")]
#[doc(inline)]
pub use capstan_client as client;
/// Computing without a server: [`Engine`](engine::Engine) in the caller's process, and the engines
/// below it.
#[cfg(feature = "server")]
pub mod engine {
    pub use capstan_engine::{
        Engine, EngineBases, EngineInput, EngineOptions, EngineOutput, EngineRun, engines::*,
    };

    /// What programs are made of.
    pub mod steps {
        pub use capstan_math::{
            operation::*,
            program::{Constant, Program, ValueId, Verification},
        };
    }
}
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_engine::{buffer, exec, ops, sync, verify};
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_gpu::device;
#[doc(inline)]
pub use capstan_math::{curve, error, sparse};
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_math::{field, program};
#[cfg(feature = "formats")]
#[doc(inline)]
pub use capstan_proofs::formats;
#[cfg(feature = "groth16")]
#[doc(inline)]
pub use capstan_proofs::groth16;
#[cfg(feature = "client")]
#[doc(inline)]
pub use capstan_proofs::kzg;
#[cfg(all(feature = "server", not(feature = "internals")))]
use capstan_proto as wire;
#[cfg(all(feature = "server", not(feature = "internals")))]
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
#[cfg(all(feature = "server", feature = "internals"))]
#[doc(inline)]
pub use capstan_proto as wire;
#[cfg(all(feature = "server", feature = "internals"))]
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
