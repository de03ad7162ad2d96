//! Runs a program to its end, as a job does.

use std::sync::Arc;

use capstan::{
    engine::JobControl,
    error::Result,
    exec::{Executor, RunOperands, RunReport, start_run},
    ops::OperationProgram,
    program::OutputSpec,
    verify::Verification,
};

/// A report, and the number of calls after which the job could let others run.
pub struct CountedRun {
    pub report: RunReport,
    pub pauses: usize,
}

pub fn run_program(
    executor: &dyn Executor,
    program: Arc<OperationProgram>,
    outputs: Vec<OutputSpec>,
    operands: &RunOperands<'_>,
    verify: Verification,
    control: &JobControl,
) -> Result<CountedRun> {
    let inputs: Vec<_> = operands.inputs.iter().map(|input| input.spec).collect();
    let mut run = start_run(executor, program, &inputs, &outputs, verify)?;
    run.begin(operands.bases)?;
    let mut pauses = 0;
    loop {
        if let Some(report) = run.step(operands, control)? {
            return Ok(CountedRun { report, pauses });
        }
        pauses += 1;
    }
}
