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
//! - `affinity`, `same_server`: which of several servers behind a proxy serves a call.
//! - `connect`: targets and TLS. `resolve`, `tcp`: hosts with several addresses. `credentials`:
//!   tokens and client certificates. `connections`: the connected client.
//! - `options`, `types`, `matrix_handle`: parameters and results of calls.
//! - `bases`, `matrices`, `vectors`: the store. `held`, `put_again`: objects that the client holds,
//!   and puts again if a server does not know them. `msm`, `ntt`, `ntt_spec`, `poly_mul`: jobs.
//!   `admin`: the server's state.
//! - `program`: builds programs of several operations. `run`: runs them. `gf2`: elimination of
//!   matrices of bits, and their transfer. `integers`: products of integers. `shared_vector`:
//!   vectors that a server on the same host reads and writes in place.
//! - `fleet`: a client of several servers. `blocking`: a client without async.
//! - `payload`, `upload`, `striped_upload`, `download`: resumable transfers over several
//!   connections. `release`: releases unfinished uploads. `frames`: bodies of streamed calls.
//! - `mapped_region`, `region`, `staging`, `staged_transfer`: transfers through memory that a
//!   server on the same host shares. `row_buffers`: the memory of an NTT's rows.
//! - `call`: deadlines and retries. `error`, `connect_cause`: errors. `convert`: conversion from
//!   and to messages.
#![deny(unsafe_code, missing_docs, clippy::unwrap_used)]

mod admin;
mod affinity;
mod bases;
pub mod blocking;
mod call;
mod connect;
mod connect_cause;
mod connections;
mod convert;
mod copy_pool;
mod credentials;
mod download;
mod error;
mod fleet;
mod frames;
mod gf2;
mod held;
mod integers;
mod list;
mod mapped_region;
mod matrices;
mod matrix_handle;
mod msm;
mod ntt;
mod ntt31;
mod ntt_spec;
mod options;
mod payload;
mod poly_mul;
mod priority;
mod program;
mod put_again;
mod region;
mod release;
mod residency;
mod resolve;
mod row_buffers;
mod run;
mod same_server;
mod shared_vector;
mod staged_transfer;
mod staging;
mod striped_upload;
mod tcp;
mod types;
mod upload;
mod vectors;

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
    field::{FieldId, Prime31},
    gf2::{BitMatrix, MatrixSizeError},
    operation::PolyReduction,
    program::{Constant, Verification},
};
#[doc(inline)]
pub use capstan_proto::v1::{
    BasesResidency, Caller, GetInfoResponse, Gpu, MsmPlan, ResidencyAction,
};
pub use num_bigint::BigUint;
pub use tonic::Code;

use capstan_proto as wire;

pub use self::{
    connect::ClientBuilder,
    connect_cause::ConnectCause,
    connections::Client,
    error::{ClientError, Refusal, Result},
    fleet::{Fleet, FleetBases, FleetBuilder, FleetServer},
    gf2::Gf2Result,
    integers::{IntMulResult, IntegerVector},
    matrix_handle::{MatrixHandle, MatrixId, MatrixInfo},
    ntt::NttResult,
    ntt31::Ntt31Result,
    options::{MsmOptions, NttOptions, Progress, PutOptions, ScalarInput},
    poly_mul::{PolyFactors, PolyMulOptions, PolyMulResult},
    priority::Priority,
    program::{
        BitMatrixValue, ClientProgram, NttTransform, PointsValue, ProgramBuilder, VectorValue,
    },
    run::{InputElements, ProgramRun, RunEstimate, RunOptions, RunResult, RunStep},
    shared_vector::{SharedElement, SharedVector},
    types::{
        BasesHandle, BasesId, BasesInfo, Direction, EncodedMsmResult, EncodedNttResult, Execution,
        MsmResult, NttReport, Order, Stage, Timing, UploadKey, VectorInfo,
    },
};
