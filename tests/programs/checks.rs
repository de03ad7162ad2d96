//! Wrong results are found, and runs stop between steps.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use capstan::{
    buffer::{ByteSink, ByteSource},
    curve::{
        Fr, G1Affine, Group,
        points::{Bases, PointOwner, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{EncodedScalars, JobControl},
    error::{EngineError, Result},
    exec::{ElementSink, RunOperands, start_run},
    field::FieldId,
    ops::{EvaluateStep, MsmStep, NttStep, PadStep},
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::Verification,
};

use crate::{
    faulty_engine::{EngineMode, faulty_executor},
    rig::{Answer, Call, CallInput, EXECUTOR, bases, natural, random, random_rows},
    run_program::run_program,
};

fn transform() -> Call {
    let mut call = Call::default();
    let input = call.input(&random_rows(2, 6, 1));
    let input = call.push(NttStep { input, plan: natural(3, false, None) });
    call.outputs = vec![call.push(EvaluateStep { input, point: random(2).into() })];
    call
}

fn sum() -> Call {
    let mut call = Call::default();
    let input = call.input(&random_rows(3, 2, 3));
    let points: Vec<G1Affine> = vec![ark_ec::AffineRepr::generator(); 2];
    call.bases = vec![bases(points)];
    let (group, object_id) = (Group::G1, [0; 32]);
    call.outputs = vec![call.push(MsmStep { input, group, object_id, offset: 0 })];
    call
}

#[test]
fn wrong_results_of_the_engine_are_found_by_either_check() {
    let (executor, dial) = faulty_executor();
    let run = |call: &Call, verify| -> Result<Answer> {
        call.run(&executor, verify, &JobControl::default())
    };
    for call in [transform(), sum()] {
        let right = run(&call, Verification::None).expect("succeeds").outputs;
        for verify in [Verification::Full, Verification::Probabilistic] {
            assert!(run(&call, verify).expect("succeeds").outputs == right);
        }
        dial.set(EngineMode::WrongResults);
        assert!(run(&call, Verification::None).expect("succeeds").outputs != right);
        for verify in [Verification::Full, Verification::Probabilistic] {
            assert_eq!(run(&call, verify).err(), Some(EngineError::Corrupt), "{verify:?}");
        }
        dial.set(EngineMode::Honest);
    }
}

/// The probabilistic check covers transforms and MSMs, and says so.
#[test]
fn reports_say_which_steps_were_checked() {
    let verified = |call: Call, verify| -> Vec<Verification> {
        let answer = call.run(&*EXECUTOR, verify, &JobControl::default()).expect("succeeds");
        let steps = answer.report.steps.into_iter();
        steps.map(|step| step.verified).collect()
    };
    use Verification::{Full, None, Probabilistic};
    assert_eq!(verified(transform(), None), [None; 3]);
    assert_eq!(verified(transform(), Probabilistic), [None, Probabilistic, None]);
    assert_eq!(verified(transform(), Full), [Full; 3]);
    // The input is read by the MSM only, and not decoded before it.
    assert_eq!(verified(sum(), Probabilistic), [None, Probabilistic]);
    let answer = sum().run(&*EXECUTOR, None, &JobControl::default()).expect("succeeds");
    let methods: Vec<_> = answer.report.steps.iter().map(|step| step.method.as_str()).collect();
    assert_eq!(methods, ["", "2 threads, blst"]);
}

#[test]
fn what_the_gpu_computes_is_what_the_oracle_checks() {
    for call in [transform(), sum()] {
        let answer = call.run(crate::gpu::executor(), Verification::Full, &JobControl::default());
        let report = answer.expect("succeeds").report;
        assert_eq!(report.executor.engine, "cuda");
        let last = report.steps.last().expect("a step");
        assert_eq!(last.verified, Verification::Full);
        assert!(!last.verify_time.is_zero());
    }
}

/// Bases that change after a GPU has copied them, so that its copy is wrong.
struct ChangingPoints {
    at_first: Vec<G1Affine>,
    later: Vec<G1Affine>,
    is_later: AtomicBool,
}

impl PointOwner<G1Affine> for ChangingPoints {
    fn points(&self) -> &[G1Affine] {
        if self.is_later.load(Ordering::Relaxed) { &self.later } else { &self.at_first }
    }
}

/// Sums over wrong bases are in proportion to each other, so only the fingerprint finds them. The
/// GPU copies the bases again afterwards.
#[test]
fn wrong_bases_on_a_gpu_are_found_and_replaced() {
    use ark_ec::{AffineRepr, CurveGroup};
    const N: usize = 80;
    let at_first = vec![G1Affine::generator(); N];
    let mut later = at_first.clone();
    later[N - 1] = (G1Affine::generator() * Fr::from(5)).into_affine();
    let points = Arc::new(ChangingPoints { at_first, later, is_later: AtomicBool::new(false) });
    let mut call = Call::default();
    let rows = random_rows(2, N, 9);
    let input = call.input(&rows);
    call.bases = vec![Bases::G1(PointSlice::new(points.clone()))];
    let (group, object_id) = (Group::G1, [0; 32]);
    call.outputs = vec![call.push(MsmStep { input, group, object_id, offset: 0 })];
    let run = |verify| call.run(crate::gpu::executor(), verify, &JobControl::default());
    for _ in 0..3 {
        // The GPU copies the bases again when it makes tables for them.
        run(Verification::None).expect("succeeds");
    }
    points.is_later.store(true, Ordering::Relaxed);
    run(Verification::None).expect("is not checked");
    assert_eq!(run(Verification::Probabilistic).err(), Some(EngineError::Corrupt));
    let answer = run(Verification::Full).expect("the bases were copied again");
    assert_eq!(answer.report.executor.engine, "cuda");
}

/// Cancels the run when it gets its elements.
struct CancellingSink(JobControl);

impl ByteSource for CancellingSink {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for CancellingSink {
    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

/// Fails the test when it gets elements.
struct UnreachedSink;

impl ByteSource for UnreachedSink {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn is_intact(&self) -> bool {
        true
    }
}

impl ByteSink for UnreachedSink {
    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        panic!("the run was cancelled before this step");
    }
}

#[test]
fn a_cancelled_run_stops_before_its_next_step() {
    let mut call = Call::default();
    let input = call.input_step(1, 2);
    let first = call.push(PadStep { input, length: 3 });
    let second = call.push(PadStep { input: first, length: 4 });
    let control = JobControl::default();
    let (cancelling, unreached) = (CancellingSink(control.clone()), UnreachedSink);
    let encoding = ScalarEncoding::Montgomery;
    let CallInput { bytes, .. } = CallInput::canonical(&vec![vec![Fr::from(1), Fr::from(2)]]);
    let source = &bytes[..];
    let operands = RunOperands {
        inputs: &[EncodedScalars::new(ScalarEncoding::Canonical, 2, &source)],
        sinks: &[
            Some(ElementSink { encoding, sink: &cancelling }),
            Some(ElementSink { encoding, sink: &unreached }),
        ],
        ..RunOperands::default()
    };
    let output = |value: ValueId| OutputSpec { value, kind: OutputKind::Elements };
    let outputs = vec![output(first), output(second)];
    let program = call.program().expect("allowed");
    let run = run_program(&*EXECUTOR, program, outputs, &operands, Verification::None, &control);
    assert_eq!(run.err(), Some(EngineError::Cancelled));
}

#[test]
fn engines_stop_within_a_step() {
    let (executor, dial) = faulty_executor();
    dial.set(EngineMode::Hangs);
    for call in [transform(), sum()] {
        let soon = std::time::Instant::now() + std::time::Duration::from_millis(50);
        let control = JobControl::new(Some(soon));
        let stopped = call.run(&executor, Verification::None, &control);
        assert_eq!(stopped.err(), Some(EngineError::Deadline));
    }
}

/// Bytes of values, and of the engine's working memory in the largest step.
#[test]
fn memory_is_known_before_the_run() {
    let engine = &EXECUTOR.engine;
    let scratch = engine.ntt_scratch_bytes(FieldId::Bls12381Fr, 3);
    let call = transform();
    let memory = |value, verify| {
        let (encoding, count) = (ScalarEncoding::Canonical, 12);
        let output = OutputSpec { value: ValueId(value), kind: OutputKind::Elements };
        let program = call.program().expect("allowed");
        let run =
            start_run(&*EXECUTOR, program, &[InputSpec::new(encoding, count)], &[output], verify);
        run.expect("allowed").plan().memory_bytes
    };
    // Two rows of 6 elements become two of 8: longer rows are never made in place.
    assert_eq!(memory(2, Verification::None), 32 * (12 + 16) + scratch);
    assert_eq!(memory(2, Verification::Probabilistic), 32 * (12 + 16) + scratch);
    // The oracle runs afterwards.
    let oracle = EXECUTOR.oracle.as_ref().expect("an oracle");
    let scratch_max = scratch.max(oracle.ntt_scratch_bytes(FieldId::Bls12381Fr, 3));
    assert_eq!(memory(2, Verification::Full), 32 * (12 + 16) + scratch_max);
    // The transform alone keeps no values: two copies of the rows at once, three with a check.
    assert_eq!(memory(1, Verification::None), 32 * 2 * 16 + scratch);
    assert_eq!(memory(1, Verification::Probabilistic), 32 * 3 * 16 + scratch);
}
