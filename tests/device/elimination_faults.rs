//! Eliminations on a GPU that computes wrong results, hangs, or lacks memory, and cancelled ones.

use std::{sync::Arc, time::Duration};

use capstan::{
    curve::scalars::ScalarEncoding,
    engine::{
        EncodedScalars, JobControl,
        cpu::ArkworksEngine,
        cuda::{CudaEngine, GpuPolicy, self_test::SelfTestSizes},
    },
    error::{EngineError, FieldProblem, InputError, Result},
    exec::{ElementSink, Executor, GpuExecutor, RunOperands, start_run},
    field::FieldId,
    gf2::BitMatrix,
    ops::{Gf2EchelonStep, Gf2ReduceStep, InputStep, OperationProgram},
    program::{OutputKind, OutputSpec, ValueId},
    verify::Verification,
};
use rand::Rng;

use crate::{
    eliminations::{matrix, pivots, rng},
    known_msms::{engine_with, is_exhausted, lease_all_but},
    refusal::{Refusal, Refusals},
    rig::{CheckLimit, DeviceRig, control, on_emulated_driver},
    transforms::PATIENCE,
    vec_sink::VecSink,
    yielding::cancel_soon,
};

const BITS: ScalarEncoding = ScalarEncoding::PackedBits64;

/// Later than cancelled jobs end.
const LONG: Duration = Duration::from_secs(5);

/// `block_strips_max` is that of the policy.
pub fn engine(
    rig: &DeviceRig,
    limit: &CheckLimit,
    block_strips_max: Option<u32>,
) -> Arc<CudaEngine> {
    let self_test = Some(SelfTestSizes::NONE);
    let cancellation_gate = limit.gate();
    let policy =
        GpuPolicy { self_test, cancellation_gate, block_strips_max, ..GpuPolicy::default() };
    Arc::new(engine_with(rig, policy))
}

fn executor(rig: &DeviceRig) -> GpuExecutor {
    let oracle = Arc::new(ArkworksEngine::new(1).unwrap());
    GpuExecutor::new(engine(rig, &CheckLimit::new(), None), Some(oracle))
}

/// The reduction of rows, or their echelon form if there are no pivots.
pub struct Elimination {
    pub pivots: Option<BitMatrix>,
    pub rows: BitMatrix,
    pub verify: Verification,
    pub time_on_host_max: Duration,
}

/// What a run has made.
#[derive(Debug)]
pub struct Eliminated {
    pub bytes: Vec<u8>,
    pub method: String,
    pub calls: usize,
}

impl Elimination {
    pub fn reduction() -> Self {
        let rng = &mut rng();
        let pivots = Some(pivots(rng, 300, 0.5));
        let rows = matrix(40, 300, |_, _| rng.random_bool(0.5));
        Self { pivots, ..Self::echelon_of(rows) }
    }

    pub fn echelon() -> Self {
        let rng = &mut rng();
        Self::echelon_of(matrix(40, 300, |_, _| rng.random_bool(0.5)))
    }

    /// Launched in several pieces: it has 79 panels.
    fn long() -> Self {
        Self::echelon_of(matrix(3, 20_000, |row, column| column % (row + 2) == 0))
    }

    fn echelon_of(rows: BitMatrix) -> Self {
        let (verify, time_on_host_max) = (Verification::None, Duration::ZERO);
        Self { pivots: None, rows, verify, time_on_host_max }
    }

    pub fn run(&self, executor: &dyn Executor, control: &JobControl) -> Result<Eliminated> {
        let matrices: Vec<_> = self.pivots.iter().chain([&self.rows]).collect();
        let words = |matrix: &BitMatrix| matrix.words().len();
        let input = |matrix: &&BitMatrix| {
            InputStep { field: FieldId::Gf2, rows: 1, length: words(matrix) as u64 }.into()
        };
        let mut steps: Vec<_> = matrices.iter().map(input).collect();
        let columns = self.rows.columns() as u64;
        steps.push(match self.pivots {
            Some(_) => Gf2ReduceStep { inputs: [ValueId(0), ValueId(1)], columns }.into(),
            None => Gf2EchelonStep { input: ValueId(0), columns }.into(),
        });
        let last = steps.len() - 1;
        let bytes = |matrix: &&BitMatrix| -> Vec<u8> {
            matrix.words().iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let sources: Vec<_> = matrices.iter().map(bytes).collect();
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let inputs = sources.iter().map(|bytes| EncodedScalars::new(BITS, bytes.len() / 8, bytes));
        let inputs: Vec<_> = inputs.collect();
        let given = inputs.iter().map(|input| input.spec);
        let sink = VecSink::new(8 * words(&self.rows));
        let sinks = [Some(ElementSink { encoding: BITS, sink: &sink })];
        let operands = RunOperands { inputs: &inputs, sinks: &sinks, ..RunOperands::default() };
        let wanted = [OutputSpec { value: ValueId(last as u32), kind: OutputKind::Elements }];
        let program = Arc::new(OperationProgram::new(steps)?);
        let mut run =
            start_run(executor, program, &given.collect::<Vec<_>>(), &wanted, self.verify)?;
        run.limit_time_on_host(self.time_on_host_max);
        run.begin(&[])?;
        let mut calls = 0;
        loop {
            calls += 1;
            if let Some(mut report) = run.step(&operands, control)? {
                let method = report.steps.remove(last).method;
                return Ok(Eliminated { bytes: sink.into_bytes(), method, calls });
            }
        }
    }
}

/// Faults that flip a bit of what a kernel wrote.
const REDUCTION_FAULTS: [&str; 5] = [
    "gf2_to_strips:1:flip5",
    "gf2_to_strips:2:flip5",
    "gf2_pivots:1:flip9",
    "gf2_update:1:flip0",
    "gf2_from_strips:1:flip5",
];
const ECHELON_FAULTS: [&str; 3] =
    ["gf2_update:2:flip0", "gf2_promoted_columns:1:flip2", "gf2_pivot_order:1:flip2"];

#[test]
fn full_checks_refuse_wrong_eliminations() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = executor(rig);
        for (mut elimination, faults) in [
            (Elimination::reduction(), &REDUCTION_FAULTS[..]),
            (Elimination::echelon(), &ECHELON_FAULTS[..]),
        ] {
            elimination.verify = Verification::Full;
            elimination.time_on_host_max = Duration::MAX;
            let run = || elimination.run(&executor, &JobControl::default());
            let right = run().unwrap();
            for fault in faults {
                control::fault(fault);
                assert_eq!(run().err(), Some(EngineError::Corrupt), "{fault}");
                control::fault("");
                assert!(run().unwrap().bytes == right.bytes, "{fault}");
            }
        }
    });
}

/// A device that fails refuses no matrix: the host looks at what a kernel has refused.
#[test]
fn right_matrices_are_not_refused_because_of_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        let executor = executor(rig);
        let elimination = Elimination::reduction();
        let run = || elimination.run(&executor, &JobControl::default());
        // A row with an unused bit, and a pivot that another one replaces.
        for fault in ["gf2_to_strips:2:flip6", "gf2_leading_columns:1:flip3"] {
            control::fault(fault);
            assert_eq!(run().err(), Some(EngineError::Corrupt), "{fault}");
            control::fault("");
            run().unwrap();
        }
        let zero = matrix(2, 300, |row, column| row == 0 && column == 5);
        let refused = Elimination { pivots: Some(zero), ..Elimination::reduction() };
        let error = refused.run(&executor, &JobControl::default()).unwrap_err();
        assert!(
            matches!(
                error,
                EngineError::Input(InputError::Invalid { problem: FieldProblem::Zero, .. })
            ),
            "{error:?}"
        );
    });
}

#[test]
fn long_eliminations_are_launched_in_pieces() {
    let rig = DeviceRig::new();
    let executor = executor(&rig);
    let (yielding, alone) = (JobControl::default(), JobControl::default());
    yielding.set_yielding(true);
    let elimination = Elimination::long();
    let whole = elimination.run(&executor, &alone).unwrap();
    assert!(whole.method.starts_with("79 panels by "), "{}", whole.method);
    // An input, the elimination, its pieces, and the end.
    assert!(whole.calls >= 6, "{} calls", whole.calls);
    let yielded = elimination.run(&executor, &yielding).unwrap();
    assert!(yielded.bytes == whole.bytes && yielded.calls >= whole.calls);
}

/// Cancels a run at each of its checks. Returns how many it has; the last run makes `right`.
pub fn count_stops(
    limit: &CheckLimit,
    right: &[u8],
    run: impl Fn() -> Result<Eliminated>,
) -> usize {
    let mut stops = 0;
    loop {
        limit.set(stops as u64);
        let done = run();
        limit.set(u64::MAX);
        match done {
            Ok(done) => {
                assert!(done.bytes == right);
                return stops;
            }
            Err(EngineError::Cancelled) => stops += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn an_elimination_stops_at_every_check_and_at_every_refused_lease() {
    let rig = DeviceRig::new();
    let limit = CheckLimit::new();
    let executor = GpuExecutor::new(engine(&rig, &limit, None), None);
    for elimination in [Elimination::reduction(), Elimination::echelon()] {
        let run = || elimination.run(&executor, &JobControl::default());
        let right = run().unwrap().bytes;
        let stops = count_stops(&limit, &right, run);
        assert!(stops >= 5, "{stops} stops");
        let leases = Refusal::of_leases(&rig);
        let run = || run().map(|done| done.bytes);
        let Refusals { refused, failed } = leases.refuse_each(1.., || run, &right);
        assert_eq!(refused, failed);
        // The inputs, both matrices in strips, the leading columns, and the working memory.
        assert!(refused >= 9, "{refused} leases");
    }
}

#[test]
fn a_cancelled_elimination_does_not_wait_for_its_panels() {
    on_emulated_driver(LONG, |rig| {
        let executor = executor(rig);
        let job = JobControl::default();
        control::fault("gf2_update:40:hang");
        cancel_soon(&job);
        assert_eq!(Elimination::long().run(&executor, &job).err(), Some(EngineError::Cancelled));
    });
}

#[test]
fn the_host_eliminates_matrices_that_no_gpu_has_memory_for() {
    let rig = DeviceRig::new();
    let executor = executor(&rig);
    let run = |elimination: &Elimination| elimination.run(&executor, &JobControl::default());
    let mut elimination = Elimination::reduction();
    let on_gpu = run(&elimination).unwrap();
    let held = lease_all_but(&rig, 1 << 14);
    // The host takes longer than it may.
    assert!(is_exhausted(&run(&elimination).unwrap_err()));
    elimination.time_on_host_max = Duration::MAX;
    let on_host = run(&elimination).unwrap();
    assert!(on_host.bytes == on_gpu.bytes && on_host.method.is_empty());
    drop(held);
    assert_eq!(run(&elimination).unwrap().method, on_gpu.method);
}
