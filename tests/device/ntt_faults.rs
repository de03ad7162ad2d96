//! Transforms of the engine with GPUs that lack memory, hit driver errors, are stopped or compute
//! wrong results, at every possible point: one job fails, and the next one is right.

use capstan::{
    client::{self, NttOptions, Verification},
    curve::{Fr, layout::fr_as_bytes, scalars::ScalarEncoding},
    device::DeviceFault,
    engine::{
        EncodedScalars, ExecutedBy, JobControl, MsmNttEngine, NttPlan, NttRows,
        cpu::ArkworksEngine,
        cuda::{CudaEngine, GpuPolicy, self_test::SelfTestSizes},
    },
    error::{EngineError, Limit, Result},
};
use tonic::Code;

use crate::{
    daemon::{start_with_client, stop},
    emulated,
    known_msms::engine_with,
    refusal::Refusal,
    rig::{CheckLimit, DeviceRig, control, on_emulated_driver},
    sweep,
    transforms::{self, PATIENCE, assert_pinned_memory_is_wiped, plan, rows},
    vec_sink::VecSink,
};

/// Rows in one vector, their transform, and the right result.
struct NttCase {
    plan: NttPlan,
    count: usize,
    check: bool,
    given: Vec<Fr>,
    expected: Vec<Fr>,
}

impl NttCase {
    fn new(plan: NttPlan, count: usize, check: bool) -> Self {
        let mut rows = rows(plan.lg_n, count);
        let given = rows.concat();
        let oracle = ArkworksEngine::new(1).unwrap();
        oracle.ntt_in_place(&plan, &mut rows, &JobControl::default()).unwrap();
        Self { plan, count, check, given, expected: rows.concat() }
    }

    /// Runs the transform. Returns its executor and whether the result is right.
    fn run(&self, engine: &CudaEngine, control: &JobControl) -> Result<(ExecutedBy, bool)> {
        let (encoding, row_length) = (ScalarEncoding::Montgomery, 1 << self.plan.lg_n);
        let given = fr_as_bytes(&self.given);
        let input = EncodedScalars::new(encoding, self.count * row_length, &given);
        let output = VecSink::new(given.len());
        let (count, check) = (self.count, self.check);
        let rows =
            NttRows { input, count, row_length, encoding, output: &output, check_on_device: check };
        let executor = engine.ntt(&self.plan, &rows, control)?;
        Ok((executor, output.into_bytes() == fr_as_bytes(&self.expected)))
    }

    /// Runs the transform on the GPU, which must give the right result and check it if asked to.
    fn check_on_gpu(&self, engine: &CudaEngine) {
        let (executor, is_right) = self.run(engine, &JobControl::default()).unwrap();
        assert!(is_right, "{executor:?}");
        assert_eq!((executor.engine, executor.checked_on_device), ("cuda", self.check));
    }
}

/// A new engine with one GPU and no tables, which leaves nothing to the CPU. Every fault gets a new
/// engine, so its self-test is short.
fn engine(rig: &DeviceRig) -> CudaEngine {
    engine_limited_to(rig, &CheckLimit::new())
}

/// Like [`engine`], with a limit on the checks of its jobs.
fn engine_limited_to(rig: &DeviceRig, limit: &CheckLimit) -> CudaEngine {
    let nothing = SelfTestSizes::NONE;
    let policy = GpuPolicy {
        self_test: Some(nothing),
        cancellation_gate: limit.gate(),
        ..GpuPolicy::default()
    };
    engine_with(rig, policy)
}

/// How jobs end if the first, the second, ... of their requests is refused.
#[derive(Debug, Default)]
struct Outcomes {
    refused: usize,
    /// Jobs that failed for lack of memory.
    failed: usize,
    /// Jobs that ran on the CPU.
    to_cpu: usize,
    /// Jobs that succeeded without the check that was asked for.
    unchecked: usize,
}

/// Runs `case` with its request number 1, 2, ... refused, until it makes no more requests. If
/// `ready`, the tables exist before.
fn every_refusal(rig: &DeviceRig, case: &NttCase, ready: bool, refusal: &Refusal<'_>) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let attempt = |&nth: &u64| {
        let engine = engine(rig);
        if ready {
            case.check_on_gpu(&engine);
        }
        refusal.arm(nth);
        let done = case.run(&engine, &JobControl::default());
        let is_met = refusal.disarm();
        match done {
            Ok((executor, is_right)) => {
                assert!(is_right, "number {nth}: {executor:?}");
                let by_gpu = executor.engine == "cuda";
                assert!(
                    is_met || (by_gpu && executor.checked_on_device == case.check),
                    "{executor:?}"
                );
                outcomes.to_cpu += usize::from(!by_gpu);
                outcomes.unchecked +=
                    usize::from(by_gpu && executor.checked_on_device != case.check);
            }
            Err(error) => {
                let limit = Limit::DeviceMemory;
                assert!(matches!(&error, EngineError::Exhausted { limit: l, .. } if *l == limit));
                assert!(is_met, "number {nth}: {error:?}");
                outcomes.failed += 1;
            }
        }
        case.check_on_gpu(&engine);
        is_met
    };
    outcomes.refused = (1..).take_while(attempt).count();
    outcomes
}

/// Two passes, out of place, on a coset: uses every kind of table but those of fused twiddles.
fn case(check: bool) -> NttCase {
    NttCase::new(plan(11, 0b1000), 1, check)
}

/// Refuses each lease of a job in turn.
fn refuse_leases(rig: &DeviceRig, ready: bool, check: bool) {
    let (case, arena) = (case(check), rig.gpu.arena());
    let outcomes = every_refusal(rig, &case, ready, &Refusal::of_leases(rig));
    println!("check {check}, tables {ready}: {outcomes:?}");
    // Leases of a group's slot: data, result and the word for a refused element. Leases for
    // tables: two of inner twiddles, one of inter-pass twiddles and one of the coset's powers,
    // each with its source.
    assert!(outcomes.to_cpu >= if ready { 3 } else { 11 }, "{outcomes:?}");
    // The check of input and output leases partial sums and sums. If its tables are refused,
    // the job succeeds unchecked.
    assert_eq!(outcomes.failed, if check { 4 } else { 0 }, "{outcomes:?}");
    assert_eq!(outcomes.unchecked > 0, check && !ready, "{outcomes:?}");
    assert_pinned_memory_is_wiped(rig);
    assert_eq!(arena.free_bytes(), arena.bytes());
}

#[test]
#[ignore = "sweep"]
fn refused_leases_of_all_jobs_fail_at_most_one_job() {
    let rig = DeviceRig::new();
    for (ready, check) in sweep::cases("leases of NTTs", [(false, false), (true, true)]) {
        refuse_leases(&rig, ready, check);
    }
}

#[test]
fn a_refused_lease_fails_at_most_one_job() {
    let rig = DeviceRig::new();
    for (ready, check) in [(false, true), (true, false)] {
        refuse_leases(&rig, ready, check);
    }
    // If there are several devices, the next one runs the job.
    let (engine, case) = (transforms::engine(&rig), NttCase::new(plan(12, 0), 1, false));
    for nth in 1..=2 {
        rig.lease_refusal.arm(nth);
        let (executor, is_right) = case.run(&engine, &JobControl::default()).unwrap();
        let is_done = rig.lease_refusal.is_done();
        assert!(is_right && executor.engine == "cuda" && is_done, "{executor:?}");
    }
    assert!(
        rig.faults
            .lock()
            .unwrap()
            .iter()
            .all(|fault| matches!(fault, DeviceFault::OutOfMemory { .. }))
    );
}

/// The fewest calls of a job whose tables exist: launches of decoding and two passes; copies to the
/// device and back; an event for each stream and two for timing; three leases.
const CALLS: [(&str, usize); 4] =
    [("cuLaunchKernel:K:701", 3), ("copy:K:2", 2), ("cuEventCreate:K:2", 4), ("memset:K:2", 3)];

/// Refuses each call of this kind of a job in turn. The job makes at least `least` of them.
fn refuse_calls(rig: &DeviceRig, (call, least): (&str, usize), ready: bool, check: bool) {
    let outcomes = every_refusal(rig, &case(check), ready, &Refusal::of_calls(rig, call));
    println!("{call}, check {check}, tables {ready}: {outcomes:?}");
    assert!(outcomes.refused >= least, "{call}: {outcomes:?}");
    // A failed wipe fails no job.
    assert!(outcomes.failed > 0 || call.starts_with("memset"), "{call}: {outcomes:?}");
}

#[test]
fn a_refused_driver_call_fails_at_most_one_job() {
    on_emulated_driver(PATIENCE, |rig| {
        for (number, call) in CALLS.into_iter().enumerate() {
            refuse_calls(rig, call, true, number % 2 == 1);
        }
        assert!(rig.gpu.context().is_alive());
        assert_pinned_memory_is_wiped(rig);
    });
}

#[test]
#[ignore = "sweep"]
fn a_refused_driver_call_of_a_checked_job_without_tables_fails_at_most_one_job() {
    on_emulated_driver(PATIENCE, |rig| {
        for call in sweep::cases("driver calls of NTTs", CALLS) {
            refuse_calls(rig, call, false, true);
        }
        assert!(rig.gpu.context().is_alive());
        assert_pinned_memory_is_wiped(rig);
    });
}

#[test]
fn a_transform_stops_at_every_check() {
    let rig = DeviceRig::new();
    // One group, checked; two groups that overlap.
    let cases =
        [NttCase::new(plan(11, 0), 1, true), NttCase::new(plan(1, 0), (1 << 17) + 1, false)];
    for (case, least) in cases.iter().zip([2, 6]) {
        let limit = CheckLimit::new();
        let engine = engine_limited_to(&rig, &limit);
        case.check_on_gpu(&engine);
        for checks in 0.. {
            limit.set(checks);
            let done = case.run(&engine, &JobControl::default());
            limit.set(u64::MAX);
            match done {
                Err(error) => assert_eq!(error, EngineError::Cancelled),
                Ok((executor, is_right)) => {
                    assert!(is_right && executor.engine == "cuda", "{executor:?}");
                    assert!(checks > least, "{checks} checks");
                    break;
                }
            }
            assert_pinned_memory_is_wiped(&rig);
        }
        case.check_on_gpu(&engine);
    }
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

/// Name, rows, log2 of a row, and faults that flip a bit of what a kernel wrote: `<kernel>:<nth
/// launch>:flip<argument that points to the output>`.
const WRONG_CASES: [(&str, usize, u32, &[&str]); 3] = [
    (
        // Few elements take two passes.
        "two passes",
        1,
        11,
        &["ntt_dif_columns_e1_b2:1:flip1", "ntt_dif_rows_r5_c1_e1:1:flip1"],
    ),
    ("one pass with fused twiddles", 5, 10, &["ntt_dif_fused_r10_c0_l4:1:flip1"]),
    (
        "tables and checks",
        1,
        11,
        &[
            // After nine launches for the inner twiddles, the inter-pass twiddles.
            "ntt_twiddles:10:flip",
            "barycentric_weights:1:flip",
            "fr_dot_chunks:1:flip3",
            "fr_dot_chunks:2:flip3",
            "fr_sum_chunks:1:flip1",
            "fr_sum_chunks:2:flip1",
        ],
    ),
];

#[test]
fn checked_transforms_refuse_wrong_results() {
    on_emulated_driver(PATIENCE, |rig| {
        for (name, count, lg_n, faults) in WRONG_CASES {
            let checked = NttCase::new(plan(lg_n, 2), count, true);
            let bare = NttCase::new(plan(lg_n, 2), count, false);
            for fault in faults {
                let engine = engine(rig);
                control::fault(fault);
                let done = checked.run(&engine, &JobControl::default());
                assert_eq!(
                    done.map(|(executor, _)| executor),
                    Err(EngineError::Corrupt),
                    "{name}: {fault}"
                );
                // A wrong table is not cached.
                control::fault("");
                checked.check_on_gpu(&engine);
            }
            // Without a check, the wrong result is returned.
            let engine = engine(rig);
            control::fault(faults[0]);
            let (executor, is_right) = bare.run(&engine, &JobControl::default()).unwrap();
            assert!(!is_right && !executor.checked_on_device, "{name}");
            control::fault("");
        }
        assert!(rig.gpu.context().is_alive() && rig.faults.lock().unwrap().is_empty());
    });
}

#[test]
fn the_daemon_refuses_wrong_results() {
    if emulated::driver().is_none() {
        return println!("skipped: wrong results cannot be injected into a GPU");
    }
    // The self-test launches the kernel three times.
    let (child, client) = start_with_client(&[("EMU_FAULT", "ntt_dif_columns_e1_b2:4:flip1")]);
    let case = NttCase::new(plan(12, 0), 1, true);
    let transform = || {
        let mut values = case.given.clone();
        let options = NttOptions { verify: Verification::Probabilistic, ..NttOptions::default() };
        client.ntt(&mut values, options).map(|report| (report, values))
    };
    let Err(client::ClientError::Refused(refusal)) = transform() else { panic!("not refused") };
    assert_eq!((refusal.code, refusal.reason_text.as_str()), (Code::DataLoss, "VERIFY_FAILED"));
    let (report, values) = transform().unwrap();
    assert!(values == case.expected && report.execution.engine == "cuda");
    stop(child);
}
