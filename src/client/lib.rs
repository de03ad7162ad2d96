//! The Rust client: takes and returns arkworks types, over one or more connections.
//!
//! The package `capstan` has this one as its module `client`.
//!
//! ```no_run
//! # async fn lesson(points: Vec<capstan::curve::G1Affine>, scalars: Vec<capstan::curve::Fr>)
//! # -> Result<(), capstan::client::ClientError> {
//! use capstan::client::Client;
//!
//! let client = Client::connect("http://127.0.0.1:7654").await?;
//! let bases = client.put_bases(&points).await?; // sent once, then referred to by id
//! let sum = client.msm(&bases, &scalars).await?;
//! # Ok(()) }
//! ```
//!
//! A client does not survive `fork`: its threads are in the parent only, locks may stay locked, and
//! shared memory and connections are the parent's. In the child, calls fail with the code
//! `FAILED_PRECONDITION`: connect again, and neither use nor drop an inherited client or
//! [`SharedVector`]. Ids are random numbers of the system, so parent and child have different ones.
//!
//! Dropping the future of a call cancels it on both sides. The server enforces the call's deadline,
//! too. Calls are retried only if the server is unavailable or temporarily full.
//!
//! - `connection`: targets, TLS, credentials, and which of several servers a call reaches.
//! - `objects`: what the server keeps, and objects that the client puts again if a server does not
//!   know them.
//! - `compute`: MSMs, transforms, products and eliminations. `run` runs programs of several
//!   operations, whose messages `program` has. `runner`: what proof systems need of a client.
//! - `transfer`: how vectors of all calls travel (`vector_call`), resumable uploads and downloads
//!   over several connections, and memory that a server on the same host shares, in which `staging`
//!   finds places. `shared_vector`: vectors in such memory.
//! - `fleet`: a client of several servers. `blocking`: a client without async.
//! - `call`: deadlines and retries. `options`, `types`: parameters and results. `convert`:
//!   conversion from and to messages.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

mod admin;
pub mod blocking;
mod call;
mod compute;
mod connection;
mod convert;
mod error;
mod fleet;
mod objects;
mod options;
mod program;
mod run;
mod runner;
mod shared_vector;
mod staging;
mod transfer;
mod types;

pub use capstan_math::{
    curve::{
        Fr, G1Affine, G1Projective, G2Affine, G2Projective, Group,
        points::{CurvePoint, PointEncoding, SumEncoding},
        scalars::ScalarEncoding,
    },
    error::{FieldProblem, Reason},
};
// Users see nothing else of these modules.
#[doc(inline)]
pub use capstan_math::{
    builder::{
        BitMatrixValue, BuiltProgram as ClientProgram, Direction, NttTransform, Order, PointsValue,
        VectorValue,
    },
    field::{FieldId, Prime31},
    gf2::{BitMatrix, MatrixSizeError},
    operation::PolyReduction,
    program::{Constant, Verification},
    runner::{Execution, Progress, PutOptions, RunOptions, RunStep, Stage, Timing},
};
#[doc(inline)]
pub use capstan_proto::v1::{
    BasesResidency, Caller, GetInfoResponse, Gpu, MsmPlan, ResidencyAction,
};
pub use num_bigint::BigUint;
pub use tonic::Code;

use capstan_proto as wire;

pub use self::{
    compute::{
        gf2::Gf2Result,
        integers::{IntMulResult, IntegerVector},
        ntt::{Ntt31Result, NttResult},
        poly_mul::{PolyFactors, PolyMulOptions, PolyMulResult},
    },
    connection::{
        connect::ClientBuilder, connect_cause::ConnectCause, connections::Client,
        priority::Priority,
    },
    error::{ClientError, Refusal, Result},
    fleet::{Fleet, FleetBases, FleetBuilder, FleetServer},
    objects::matrix_handle::{MatrixHandle, MatrixInfo},
    options::{MsmOptions, NttOptions, ScalarInput},
    program::ClientProgramBuilder as ProgramBuilder,
    run::{InputElements, ProgramRun, RunEstimate, RunResult},
    shared_vector::{SharedElement, SharedVector},
    types::{
        BasesHandle, BasesId, BasesInfo, EncodedMsmResult, EncodedNttResult, MatrixId, MsmResult,
        NttReport, UploadKey, VectorInfo,
    },
};
