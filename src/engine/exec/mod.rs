//! Runs programs. [`HostExecutor`] keeps values in host memory, [`GpuExecutor`] in that of a GPU.
//! Calls of one MSM or NTT keep no values: they are computed while their input arrives.

mod busy_poll;
mod call;
mod executor;
mod full_check;
mod gpu;
mod host;
mod in_pieces;
mod operands;
mod plan;
mod report;
mod start;

pub use busy_poll::BusyPoll;
pub use call::{OnlyStep, RunCall};
pub use executor::{Evictor, Executor, JOBS_PER_DEVICE, MSM_BATCH_SCALARS_MAX, RunInProgress};
pub use gpu::GpuExecutor;
pub use host::HostExecutor;
pub use operands::{AwaitedElements, RunOperands, SumsListener};
pub use plan::{OutputWrites, ProgramPlan};
pub use report::{ModelledTime, RunReport, StepReport};
pub use start::start_run;

pub use crate::ops::host::ElementSink;
