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

pub use busy_poll::BusyPoll;
pub use call::{OnlyStep, RunCall};
pub use executor::{Evictor, Executor, JOBS_PER_DEVICE, MSM_BATCH_SCALARS_MAX, RunInProgress};
pub use gpu::GpuExecutor;
pub use host::HostExecutor;
pub use operands::{AwaitedElements, RunOperands, SumsListener};
pub use plan::{OutputWrites, ProgramPlan};
pub use report::{ModelledTime, RunReport, StepReport};

pub use crate::ops::host::ElementSink;

use std::sync::Arc;

use self::full_check::FullyCheckedRun;
use crate::{
    error::{Error, Result},
    ops::OperationProgram,
    program::{InputSpec, OutputSpec},
    verify::Verification,
};

/// Checks the call and prepares a run, whose results are checked as `verify` says.
///
/// Errors: `Invalid` for the first input or output that the program does not allow; `Internal` if a
/// full check is wanted and the executor has no oracle.
pub fn start_run(
    executor: &dyn Executor,
    program: Arc<OperationProgram>,
    inputs: &[InputSpec],
    outputs: &[OutputSpec],
    verify: Verification,
) -> Result<Box<dyn RunInProgress>> {
    let is_checked = verify == Verification::Probabilistic;
    let call = Arc::new(RunCall::new(program, inputs, outputs, is_checked)?);
    if verify != Verification::Full {
        return Ok(executor.prepare(call));
    }
    let oracle = executor.oracle();
    let oracle = oracle.ok_or_else(|| Error::Internal("the executor has no oracle".into()))?;
    Ok(Box::new(FullyCheckedRun::new(executor, oracle, call)))
}
