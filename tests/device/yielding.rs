//! Long jobs that let short jobs of others run, and leave a GPU when they are cancelled.

use std::{
    sync::Arc,
    thread::{sleep, spawn},
    time::Duration,
};

use capstan::{
    curve::{Fr, G1Affine, scalars::ScalarEncoding},
    engine::JobControl,
    error::EngineError,
    exec::{GpuExecutor, RunOperands, start_run},
    field::FieldId,
    ops::{Operation, OperationProgram, PointwiseOperation, PointwiseStep, PowersStep},
    program::{OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    known_msms::{MsmCase, engine},
    rig::{control, on_emulated_driver},
};

/// After this time, a device that hangs is given up: later than cancelled jobs end.
const LONG: Duration = Duration::from_secs(5);

/// A chain of multiplications.
fn program(length: u32) -> Arc<OperationProgram> {
    let base = Fr::from(3);
    let mut steps: Vec<Operation> = vec![
        PowersStep {
            field: FieldId::Bls12381Fr,
            base: base.into(),
            first: base.into(),
            length: 64,
        }
        .into(),
    ];
    for last in 0..length - 1 {
        let inputs = vec![ValueId(last); 2];
        let operation = PointwiseOperation::Multiply;
        steps.push(PointwiseStep { operation, inputs }.into());
    }
    Arc::new(OperationProgram::new(steps).unwrap())
}

/// Steps a run of a program of `length` steps, on a device that hangs. Returns the number of calls
/// before the last one, and its error.
fn step_to_the_end(
    executor: &GpuExecutor,
    length: u32,
    control: &JobControl,
) -> (u32, EngineError) {
    let outputs = [OutputSpec { value: ValueId(length - 1), kind: OutputKind::Elements }];
    let program = program(length);
    let mut run = start_run(executor, program, &[], &outputs, Verification::None).unwrap();
    run.begin(&[]).unwrap();
    let operands = RunOperands { sinks: &[None], ..RunOperands::default() };
    let mut calls = 0;
    loop {
        match run.step(&operands, control) {
            Ok(None) => calls += 1,
            Ok(Some(_)) => panic!("the device hangs"),
            Err(error) => return (calls, error),
        }
    }
}

#[test]
fn a_program_that_yields_launches_no_step_before_the_last_one_has_ended() {
    const STEPS: u32 = 5;
    on_emulated_driver(Duration::from_secs(1), |rig| {
        let executor = GpuExecutor::new(Arc::new(engine(rig)), None);
        let control = JobControl::default();
        control.set_yielding(true);
        control::fault("cuLaunchKernel:2:hang");
        let (calls, lost) = step_to_the_end(&executor, STEPS, &control);
        assert_eq!(lost, EngineError::DeviceLost);
        // It would have launched all steps at once, and waited at the end.
        assert!(calls > 2 * STEPS, "{calls} calls");
    });
}

/// Cancels the job after a while.
pub fn cancel_soon(job: &JobControl) {
    let job = job.clone();
    spawn(move || {
        sleep(Duration::from_millis(300));
        job.cancel();
    });
}

#[test]
fn a_cancelled_msm_does_not_wait_for_its_passes() {
    on_emulated_driver(LONG, |rig| {
        let engine = engine(rig);
        let case = MsmCase::<G1Affine>::new(45, 1, ScalarEncoding::Canonical);
        let object = case.object();
        case.run_whole(&engine, &object, &JobControl::default()).unwrap();
        let job = JobControl::default();
        control::fault("cuLaunchKernel:3:hang");
        cancel_soon(&job);
        assert_eq!(case.run_whole(&engine, &object, &job), Err(EngineError::Cancelled));
    });
}

#[test]
fn a_cancelled_program_launches_few_steps_and_does_not_wait_for_them() {
    on_emulated_driver(LONG, |rig| {
        let executor = GpuExecutor::new(Arc::new(engine(rig)), None);
        let job = JobControl::default();
        control::fault("cuLaunchKernel:2:hang");
        cancel_soon(&job);
        let (calls, ended) = step_to_the_end(&executor, 60, &job);
        assert_eq!(ended, EngineError::Cancelled);
        assert!(calls < 30, "{calls} steps were launched");
    });
}
