//! The engine of Capstan: MSMs, NTTs, and programs of steps, on the host's threads and on NVIDIA
//! GPUs, whose driver is loaded at run time. It computes from memory to memory, and checks results
//! if the caller wants that; it knows neither requests nor processes.
//!
//! [`engines`] compute MSMs and NTTs, `ops` the steps of programs with them, and `exec` runs whole
//! programs. `buffer` has the memory of operands and results.
//!
//! [`Engine`] is the public part, which `capstan::engine` has, too. Everything else belongs to
//! `capstan`, and may change with each release.
#![deny(unsafe_code, clippy::unwrap_used)]

pub mod buffer;
#[deny(missing_docs)]
pub mod engine_error;
#[deny(missing_docs)]
pub mod engines;
pub mod exec;
#[deny(missing_docs)]
mod in_process;
pub mod integers;
pub mod ops;
pub mod sync;
pub mod verify;

pub use capstan_math::{curve, curve::NttPlan};
pub use in_process::{
    Engine, EngineInput, EngineOptions, EngineProgramBuilder as ProgramBuilder, EngineRun,
};

use capstan_gpu::{device, gf2_elimination, msm, ntt, ntt31};
use capstan_math::{builder, field, gf2, operation, program, runner, sparse};
use capstan_region as region;
use engine_error as error;
