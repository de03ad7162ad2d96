//! Long work on the CPU ends soon after it is cancelled, also within one step. The bounds are parts
//! of the time that the same work takes on the same machine.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use ark_ff::UniformRand;
use ark_std::rand::{SeedableRng, rngs::StdRng};
use capstan::{
    buffer::ByteSink,
    curve::{
        Fr, G1Affine, G2Affine, layout,
        points::{CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    engine::{
        EncodedScalars, JobControl, MsmNttEngine, NttPlan, NttRows,
        cpu::{ArkworksEngine, CpuEngine},
    },
    error::{EngineError, Result},
    exec::{ElementSink, HostExecutor, RunInProgress, RunOperands, start_run},
    field::FieldId,
    ops::{
        DivideByLinearStep, EvaluateStep, InputStep, LinearCombinationStep, Operation,
        OperationProgram, PointwiseOperation, PointwiseStep,
    },
    program::{InputSpec, OutputKind, OutputSpec, ValueId},
    verify::{Verification, verify_ntt},
};

use crate::{has_all_cases, msm::known_points, vec_sink::VecSink};

const THREADS: usize = 2;
/// Other processes may delay some of them.
const ATTEMPTS: usize = 8;

/// Returns `lg_n` in sweeps, and log2 of half that size in a plain run.
fn lg_size(lg_n: u32) -> u32 {
    if has_all_cases() { lg_n } else { lg_n - 1 }
}

/// log2 of the elements of a vector of programs.
fn lg_vector() -> u32 {
    lg_size(20)
}

/// Lets one test measure at a time.
pub fn measuring() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels `work` after an eighth of its time, and asserts that it ends before half of its rest
/// would be done, at the latest in the last attempt. `prepare` makes what an attempt needs,
/// and `wiping` is the time to wipe what the work has made.
pub fn ends_soon<T: Send>(
    name: &str,
    wiping: Duration,
    prepare: impl Fn() -> T,
    work: impl Fn(T, &JobControl) -> Result<()> + Sync,
) {
    let given = prepare();
    let begun = Instant::now();
    work(given, &JobControl::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let whole = begun.elapsed();
    let mut before = whole / 8;
    let rest = whole - before;
    let bound = rest / 2 + wiping;
    let mut latencies = Vec::new();
    while latencies.len() < ATTEMPTS && latencies.last().is_none_or(|latency| *latency >= bound) {
        let (given, control) = (prepare(), JobControl::default());
        let (result, latency) = thread::scope(|scope| {
            let running = scope.spawn(|| (work(given, &control), Instant::now()));
            thread::sleep(before);
            let cancelled = Instant::now();
            control.cancel();
            let (result, ended) = running.join().expect("no panic");
            (result, ended.saturating_duration_since(cancelled))
        });
        // It has ended before if the machine was busy only while the whole was measured.
        if result.is_ok() {
            latencies.push(Duration::MAX);
            before /= 2;
            continue;
        }
        assert_eq!(result, Err(EngineError::Cancelled), "{name}");
        println!("{name}: ends {latency:?} after its cancellation, {rest:?} before its end");
        latencies.push(latency);
    }
    assert!(latencies.last().is_some_and(|latency| *latency < bound), "{name}: {latencies:?}");
}

fn random(lg_n: u32) -> Vec<Fr> {
    let mut rng = StdRng::seed_from_u64(lg_n.into());
    (0..1 << lg_n).map(|_| Fr::rand(&mut rng)).collect()
}

fn end_msm_soon<A: CurvePoint>(name: &str, engine: &dyn MsmNttEngine, lg_n: u32) {
    let lg_n = lg_size(lg_n);
    let points = known_points::<A>().iter().copied().cycle().take(1 << lg_n).collect::<Vec<_>>();
    let bases = A::into_bases(PointSlice::new(Arc::new(points)));
    let scalars = random(lg_n);
    let bytes = layout::fr_as_bytes(&scalars);
    let start = || engine.msm(bases.clone(), 1).expect("an MSM");
    ends_soon(name, Duration::ZERO, start, |mut run, control| {
        let scalars = EncodedScalars::new(ScalarEncoding::Montgomery, 1 << lg_n, &bytes);
        run.absorb(0, 0, &scalars, control)
    });
}

fn end_ntt_soon(name: &str, engine: &dyn MsmNttEngine, lg_n: u32, inverse: bool) {
    let lg_n = lg_size(lg_n);
    let (input, output) = (random(lg_n), VecSink::new(32 << lg_n));
    let bytes = layout::fr_as_bytes(&input);
    let (encoding, coset) = (ScalarEncoding::Canonical, Some(Fr::from(7)));
    let plan = NttPlan { lg_n, inverse, coset, input_reversed: true, output_reversed: false };
    ends_soon(
        name,
        wiping(lg_n),
        || (),
        |(), control| {
            let input = EncodedScalars::new(ScalarEncoding::Montgomery, 1 << lg_n, &bytes);
            let (count, row_length, output, check_on_device) = (1, 1 << lg_n, &output, false);
            let rows = NttRows { input, count, row_length, encoding, output, check_on_device };
            engine.ntt(&plan, &rows, control).map(drop)
        },
    );
}

/// The time to wipe a vector of which nothing is written yet: the system has to map its pages.
fn wiping(lg_n: u32) -> Duration {
    let vector = zeroize::Zeroizing::new(vec![0_u64; 4 << lg_n]);
    let begun = Instant::now();
    drop(vector);
    begun.elapsed()
}

#[test]
fn msms_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let engine = CpuEngine::new(THREADS).expect("threads");
    end_msm_soon::<G1Affine>("MSM in G1", &engine, 18);
    end_msm_soon::<G2Affine>("MSM in G2", &engine, 17);
}

#[test]
fn msms_of_the_oracle_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let engine = ArkworksEngine::new(THREADS).expect("threads");
    end_msm_soon::<G1Affine>("MSM in G1 on the oracle", &engine, 17);
    end_msm_soon::<G2Affine>("MSM in G2 on the oracle", &engine, 15);
}

#[test]
fn transforms_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let engine = CpuEngine::new(THREADS).expect("threads");
    end_ntt_soon("NTT", &engine, 21, false);
    end_ntt_soon("inverse NTT", &engine, 20, true);
    let engine = ArkworksEngine::new(THREADS).expect("threads");
    end_ntt_soon("NTT on the oracle", &engine, 21, false);
}

#[test]
fn checks_of_transforms_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build().expect("threads");
    let (inverse, coset, input_reversed, output_reversed) = Default::default();
    let plan = NttPlan { lg_n: lg_vector(), inverse, coset, input_reversed, output_reversed };
    let row = random(lg_vector());
    ends_soon(
        "check of an NTT",
        Duration::ZERO,
        || (),
        |(), control| {
            // Both sides are computed before they are compared.
            pool.install(|| verify_ntt(&plan, &row, &row, control))
                .map(|is_right| assert!(!is_right))
        },
    );
}

/// A program of an input and one step.
struct OneStep {
    executor: HostExecutor,
    program: Arc<OperationProgram>,
    elements: Vec<Fr>,
    output: VecSink,
}

impl OneStep {
    fn new(step: impl Into<Operation>) -> Self {
        let input = InputStep { field: FieldId::Bls12381Fr, rows: 1, length: 1 << lg_vector() };
        Self {
            executor: HostExecutor {
                engine: Arc::new(CpuEngine::new(THREADS).expect("threads")),
                oracle: None,
            },
            program: Arc::new(OperationProgram::new(vec![input.into(), step.into()]).unwrap()),
            elements: random(lg_vector()),
            output: VecSink::new(32 << lg_vector()),
        }
    }

    fn start(&self) -> Box<dyn RunInProgress> {
        let input = InputSpec::new(ScalarEncoding::Canonical, 1 << lg_vector());
        let output = OutputSpec { value: ValueId(1), kind: OutputKind::Elements };
        let (program, verify) = (self.program.clone(), Verification::None);
        start_run(&self.executor, program, &[input], &[output], verify).expect("a valid call")
    }

    fn step(&self, run: &mut dyn RunInProgress, control: &JobControl) -> Result<()> {
        let bytes = layout::fr_as_bytes(&self.elements);
        // Any element in Montgomery form is also one in canonical form.
        let input = EncodedScalars::new(ScalarEncoding::Canonical, 1 << lg_vector(), &bytes);
        let sink: &dyn ByteSink = &self.output;
        let sink = ElementSink { encoding: ScalarEncoding::Canonical, sink };
        let operands =
            RunOperands { inputs: &[input], sinks: &[Some(sink)], ..RunOperands::default() };
        run.step(&operands, control).map(drop)
    }

    /// Cancels the step; the input is decoded before.
    fn ends_soon(&self, name: &str) {
        let prepare = || {
            let mut run = self.start();
            self.step(&mut *run, &JobControl::default()).expect("decodes the input");
            run
        };
        // Its value, and the input.
        let wiping = 2 * wiping(lg_vector());
        ends_soon(name, wiping, prepare, |mut run, control| self.step(&mut *run, control));
    }
}

#[test]
fn steps_of_programs_end_soon_after_they_are_cancelled() {
    let _measuring = measuring();
    let (input, point) = (ValueId(0), Fr::from(5));
    let many = 32;
    let combination =
        LinearCombinationStep { inputs: vec![input; many], factors: vec![point.into(); many] };
    let combined = OneStep::new(combination);
    combined.ends_soon("linear combination of 32 vectors");
    let decoding = || combined.start();
    ends_soon("input", wiping(lg_vector()), decoding, |mut run, control| {
        combined.step(&mut *run, control)
    });
    let inversion = PointwiseStep { operation: PointwiseOperation::Invert, inputs: vec![input] };
    OneStep::new(inversion).ends_soon("inversion");
    OneStep::new(DivideByLinearStep { input, point }).ends_soon("division");
    OneStep::new(EvaluateStep { input, point: point.into() }).ends_soon("evaluation");
}
