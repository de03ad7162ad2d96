//! Capstan: MSM and NTT over BLS12-381 as a service. See ARCHITECTURE.md for the structure.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

#[cfg(feature = "cli")]
#[doc(inline)]
pub use capstan_cli as cli;
#[doc(inline)]
pub use capstan_math::{curve, runner, sparse};
#[cfg(feature = "server")]
#[doc(inline)]
pub use capstan_server::{config, grpc as server, telemetry};
#[cfg(feature = "client")]
#[doc(inline)]
pub use {capstan_client as client, capstan_proofs::*};

/// What can be wrong: with an input, in an engine, and in the service.
pub mod error {
    #[doc(inline)]
    pub use capstan_math::error::{
        FieldPath, FieldProblem, InputError, ItemField, Reason, StepField,
    };
    #[cfg(feature = "server")]
    #[doc(inline)]
    pub use capstan_server::service_error::{
        CredentialProblem, EngineError, EngineResult as Result, Limit, ProgramExcess, ServiceError,
        TenantLimit,
    };
}

/// Computing without a server: [`Engine`](engine::Engine) in the caller's process, and the engines
/// below it.
#[cfg(feature = "server")]
pub mod engine {
    pub use capstan_engine::{
        Engine, EngineInput, EngineOptions, EngineRun, ProgramBuilder, engines::*,
    };
    pub use capstan_math::{
        builder::{
            BitMatrixValue, BuiltProgram, NttTransform, PointsValue, ProgramBases, ProgramMatrix,
            VectorValue,
        },
        operation::PolyReduction,
        program::{Constant, Verification},
        runner::{RunOptions, RunValues},
    };
}

// For the tests and benchmarks of this package. Not a stable API.
#[doc(hidden)]
pub use capstan_math::{builder, field, gf2, operation, program};
#[cfg(feature = "server")]
#[doc(hidden)]
pub use {
    capstan_engine::{buffer, exec, integers, ops, sync, verify},
    capstan_gpu::{device, gf2_elimination, msm, ntt, ntt31},
    capstan_identity as identity, capstan_proto as wire, capstan_region as region,
    capstan_server::{jobs, store, tenant, worker},
};

/// Compiles the code examples of the first page and of `docs/clients.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/clients.md")]
pub struct Pages;
