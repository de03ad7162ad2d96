//! Programs that let short jobs of others run.

use std::{sync::Arc, time::Duration};

use capstan::{
    curve::Fr,
    engine::JobControl,
    error::Error,
    exec::{GpuExecutor, RunOperands, start_run},
    ops::{Operation, OperationProgram, PointwiseOperation, PointwiseStep, PowersStep},
    program::{OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    known_msms::engine,
    rig::{control, on_emulated_driver},
};

/// A chain of multiplications.
fn program(length: u32) -> Arc<OperationProgram> {
    let base = Fr::from(3);
    let mut steps: Vec<Operation> = vec![PowersStep { base, first: base, length: 64 }.into()];
    for last in 0..length - 1 {
        let inputs = vec![ValueId(last); 2];
        let operation = PointwiseOperation::Multiply;
        steps.push(PointwiseStep { operation, inputs }.into());
    }
    Arc::new(OperationProgram::new(steps).unwrap())
}

#[test]
fn a_program_that_yields_launches_no_step_before_the_last_one_has_ended() {
    const STEPS: u32 = 5;
    on_emulated_driver(Duration::from_secs(1), |rig| {
        let executor = GpuExecutor::new(Arc::new(engine(rig)), None);
        let control = JobControl::default();
        control.set_yielding(true);
        let outputs = [OutputSpec { value: ValueId(STEPS - 1), kind: OutputKind::Elements }];
        let program = program(STEPS);
        let mut run = start_run(&executor, program, &[], &outputs, Verification::None).unwrap();
        run.begin(&[]).unwrap();
        control::fault("cuLaunchKernel:2:hang");
        let operands = RunOperands { inputs: &[], bases: &[], sinks: &[None] };
        let mut calls = 0;
        let lost = loop {
            match run.step(&operands, &control) {
                Ok(None) => calls += 1,
                Ok(Some(_)) => panic!("the device hangs"),
                Err(error) => break error,
            }
        };
        assert_eq!(lost, Error::DeviceLost);
        // It would have launched all steps at once, and waited at the end.
        assert!(calls > 2 * STEPS, "{calls} calls");
    });
}
