//! Starts runs: checks a call, and chooses how its results are checked.

use std::sync::Arc;

use super::{Executor, RunInProgress, call::RunCall, full_check::FullyCheckedRun};
use crate::{
    error::{Error, Result},
    ops::OperationProgram,
    program::{InputSpec, OutputSpec},
    verify::Verification,
};

/// Checks the call and prepares a run.
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
