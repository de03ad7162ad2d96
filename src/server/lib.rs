//! The daemon of Capstan as a library: a gRPC service that admits, schedules and checks jobs, and
//! runs them on an engine of `capstan-engine`, in this process or in worker processes.
//!
//! [`grpc`] answers the calls of `tenant`s with `jobs` and with what `store` keeps between calls.
//! `worker` computes in other processes, one for each GPU. [`config`] reads the `settings`,
//! and [`telemetry`] has logs and metrics.
//!
//! Use the package `capstan`, whose module `server` is [`grpc`]: this one belongs to it, and may
//! change with each release.
#![deny(unsafe_code, clippy::unwrap_used)]

#[deny(missing_docs)]
pub mod config;
#[deny(missing_docs)]
pub mod grpc;
pub mod jobs;
#[deny(missing_docs)]
pub mod service_error;
mod settings;
pub mod store;
#[deny(missing_docs)]
pub mod telemetry;
pub mod tenant;
pub mod worker;

use capstan_engine::{buffer, engines as engine, exec, ops, sync, verify};
use capstan_gpu::device;
use capstan_identity as identity;
use capstan_math::{curve, field, program, sparse};
use capstan_proto as wire;
use capstan_region as region;
use service_error as error;
