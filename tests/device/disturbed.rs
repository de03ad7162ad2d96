//! Transforms of the engine with GPUs that are refused something, are stopped, or are computed
//! wrong, wherever that can be: one job fails, and the next one is right.

use std::sync::Mutex;

use capstan::{
    buffer::Sink,
    client::{self, NttOptions, Verify},
    curve::{Fr, layout::fr_as_bytes, scalars::ScalarEncoding},
    device::Fault,
    engine::{
        Control, Encoded, Engine, Executor, NttPlan, Rows,
        cpu::{ArkworksEngine, CpuEngine},
        cuda::{CudaEngine, Least, self_test::SelfTestSizes},
    },
    error::{Error, Limit, Result},
};
use tonic::Code;

use crate::{
    daemon::{served, stop},
    emulated,
    rig::{Rig, control, with_faults},
    transforms::{self, PATIENCE, pinned_memory_is_wiped, plan, rows},
};

/// Rows, one after the other, and what is to become of them.
struct Case {
    plan: NttPlan,
    count: usize,
    check: bool,
    given: Vec<Fr>,
    expected: Vec<Fr>,
}

/// A result in memory.
struct Written(Mutex<Vec<u8>>);

impl Sink for Written {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Case {
    fn new(plan: NttPlan, count: usize, check: bool) -> Self {
        let mut rows = rows(plan.lg_n, count);
        let given = rows.concat();
        let oracle = ArkworksEngine::new(1).unwrap();
        oracle.ntt_in_place(&plan, &mut rows, &Control::default()).unwrap();
        Self { plan, count, check, given, expected: rows.concat() }
    }

    /// Who did it, and whether the result is right.
    fn run(&self, engine: &CudaEngine, control: &Control) -> Result<(Executor, bool)> {
        let (encoding, row_length) = (ScalarEncoding::Montgomery, 1 << self.plan.lg_n);
        let given = fr_as_bytes(&self.given);
        let input = Encoded::new(encoding, self.count * row_length, &given);
        let output = Written(Mutex::new(vec![0; given.len()]));
        let (count, check) = (self.count, self.check);
        let rows = Rows { input, count, row_length, encoding, output: &output, check };
        let executor = engine.ntt(&self.plan, &rows, control)?;
        Ok((executor, output.0.into_inner().unwrap() == fr_as_bytes(&self.expected)))
    }

    /// All is well.
    fn passes(&self, engine: &CudaEngine) {
        let (executor, is_right) = self.run(engine, &Control::default()).unwrap();
        assert!(is_right, "{executor:?}");
        assert_eq!((executor.engine, executor.checked), ("cuda", self.check));
    }
}

/// An engine with one GPU, without tables, that leaves nothing to the CPU. There is one for each
/// fault, so its self-test is short.
fn engine(rig: &Rig) -> CudaEngine {
    let least = Least { msm_scalars: 1, ntt_elements: 1 };
    let (cpu, gpu) = (CpuEngine::new(1).unwrap(), rig.gpu.clone());
    let nothing = SelfTestSizes { points: &[], batches: &[] };
    CudaEngine::with_self_test(cpu, gpu.into(), least, nothing).unwrap()
}

/// What becomes of a job when the first, the second and so on of what it asks for is refused, until
/// it asks for no more.
#[derive(Debug, Default)]
struct Seen {
    refused: u64,
    /// Jobs that failed, for want of memory.
    failed: usize,
    /// Jobs that the CPU did.
    to_cpu: usize,
    /// Jobs that were done and not checked, though that was wanted.
    unchecked: usize,
}

/// `arm` is told which, `fired` says whether it was. `ready`: tables are there before.
fn every_refusal(
    rig: &Rig,
    (case, ready): (&Case, bool),
    arm: &dyn Fn(u64),
    fired: &dyn Fn() -> bool,
) -> Seen {
    let mut seen = Seen::default();
    for nth in 1.. {
        let engine = engine(rig);
        if ready {
            case.passes(&engine);
        }
        arm(nth);
        let done = case.run(&engine, &Control::default());
        let fired = fired();
        match done {
            Ok((executor, is_right)) => {
                assert!(is_right, "number {nth}: {executor:?}");
                let by_gpu = executor.engine == "cuda";
                assert!(fired || (by_gpu && executor.checked == case.check), "{executor:?}");
                seen.to_cpu += usize::from(!by_gpu);
                seen.unchecked += usize::from(by_gpu && executor.checked != case.check);
            }
            Err(error) => {
                let limit = Limit::DeviceMemory;
                assert!(matches!(&error, Error::Exhausted { limit: l, .. } if *l == limit));
                assert!(fired, "number {nth}: {error:?}");
                seen.failed += 1;
            }
        }
        case.passes(&engine);
        if !fired {
            return seen;
        }
        seen.refused = nth;
    }
    unreachable!("a job asks for no end of it")
}

/// Two passes out of place, on a coset: every kind of table but merged ones.
fn case(check: bool) -> Case {
    Case::new(plan(11, 0b1000), 1, check)
}

#[test]
fn every_lease_may_be_refused() {
    let rig = Rig::new();
    let arena = rig.gpu.arena();
    for (ready, check) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = case(check);
        let arm = |nth| assert_eq!(arena.refuse(nth), 0);
        let seen = every_refusal(&rig, (&case, ready), &arm, &|| arena.refuse(0) == 0);
        println!("check {check}, tables {ready}: {seen:?}");
        // Slots of one group: data, result, refused word. Tables: two of steps, border, rows, each
        // with what it is made from.
        assert!(seen.to_cpu >= if ready { 3 } else { 11 }, "{seen:?}");
        // Partial sums and sums of both ends; their tables go without a check.
        assert_eq!(seen.failed, if check { 4 } else { 0 }, "{seen:?}");
        assert_eq!(seen.unchecked > 0, check && !ready, "{seen:?}");
        pinned_memory_is_wiped(&rig);
        assert_eq!(arena.free_bytes(), arena.bytes());
    }
    // Of several devices, the next one does it.
    let (engine, case) = (transforms::engine(&rig), Case::new(plan(12, 0), 1, false));
    for nth in 1..=2 {
        arena.refuse(nth);
        let (executor, is_right) = case.run(&engine, &Control::default()).unwrap();
        assert!(is_right && executor.engine == "cuda" && arena.refuse(0) == 0, "{executor:?}");
    }
    assert!(rig.faults.lock().unwrap().iter().all(|fault| matches!(fault, Fault::Full { .. })));
}

#[test]
fn every_call_of_the_driver_may_be_refused() {
    with_faults(PATIENCE, |rig| {
        let told = || std::mem::take(&mut *rig.faults.lock().unwrap());
        // Fewest calls of a job that has its tables: decoding and two passes; there and back; an
        // event a stream and two to time it; three leases.
        let calls = [
            ("cuLaunchKernel:K:701", 3),
            ("copy:K:2", 2),
            ("cuEventCreate:K:2", 4),
            ("memset:K:2", 3),
        ];
        for (ready, check) in [(false, true), (true, false)] {
            let case = case(check);
            for (call, least) in calls {
                let arm = |nth: u64| control::fault(&call.replace(":K:", &format!(":{nth}:")));
                let fired = || {
                    control::fault("");
                    !told().is_empty()
                };
                told();
                let seen = every_refusal(rig, (&case, ready), &arm, &fired);
                println!("{call}, check {check}, tables {ready}: {seen:?}");
                assert!(seen.refused >= least, "{call}: {seen:?}");
                // What fails when memory is wiped is nobody's failure.
                assert!(seen.failed > 0 || call.starts_with("memset"), "{call}: {seen:?}");
            }
        }
        assert!(rig.gpu.context().is_alive());
        pinned_memory_is_wiped(rig);
    });
}

#[test]
fn every_check_of_the_control_may_stop_it() {
    let rig = Rig::new();
    // In one group, checked; in two that overlap.
    let cases = [Case::new(plan(11, 0), 1, true), Case::new(plan(1, 0), (1 << 17) + 1, false)];
    for (case, least) in cases.iter().zip([2, 6]) {
        let engine = engine(&rig);
        case.passes(&engine);
        for checks in 0.. {
            match case.run(&engine, &Control::cancelled_after(checks)) {
                Err(error) => assert_eq!(error, Error::Cancelled),
                Ok((executor, is_right)) => {
                    assert!(is_right && executor.engine == "cuda", "{executor:?}");
                    assert!(checks > least, "{checks} checks");
                    break;
                }
            }
            pinned_memory_is_wiped(&rig);
        }
        case.passes(&engine);
    }
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

/// Kernels of transforms and of their checks, and the argument that says where they write.
const WRONG: [(&str, usize, u32, &[&str]); 3] = [
    (
        // Few elements: two passes.
        "a columns' pass and a rows' pass",
        1,
        11,
        &["ntt_descend_columns_e1_b2:1:flip1", "ntt_descend_rows_r5_c1_e1:1:flip1"],
    ),
    ("merged rows", 5, 10, &["ntt_descend_merged_r10_c0_l4:1:flip1"]),
    (
        "tables, and what checks",
        1,
        11,
        &[
            // After nine parts of the steps': the border.
            "ntt_factors:10:flip",
            "ntt_weights:1:flip",
            "ntt_dot:1:flip3",
            "ntt_dot:2:flip3",
            "ntt_sum:1:flip1",
            "ntt_sum:2:flip1",
        ],
    ),
];

#[test]
fn a_wrong_result_is_not_given() {
    with_faults(PATIENCE, |rig| {
        for (name, count, lg_n, faults) in WRONG {
            let checked = Case::new(plan(lg_n, 2), count, true);
            let bare = Case::new(plan(lg_n, 2), count, false);
            for fault in faults {
                let engine = engine(rig);
                control::fault(fault);
                let done = checked.run(&engine, &Control::default());
                assert_eq!(
                    done.map(|(executor, _)| executor),
                    Err(Error::Corrupt),
                    "{name}: {fault}"
                );
                // A wrong table is not kept for others.
                control::fault("");
                checked.passes(&engine);
            }
            // Nobody would notice.
            let engine = engine(rig);
            control::fault(faults[0]);
            let (executor, is_right) = bare.run(&engine, &Control::default()).unwrap();
            assert!(!is_right && !executor.checked, "{name}");
            control::fault("");
        }
        assert!(rig.gpu.context().is_alive() && rig.faults.lock().unwrap().is_empty());
    });
}

#[test]
fn a_wrong_result_is_not_served() {
    if emulated::driver().is_none() {
        return println!("skipped: this GPU computes right");
    }
    // The self-test launches it three times.
    let (child, client) = served(&[("EMU_FAULT", "ntt_descend_columns_e1_b2:4:flip1")]);
    let case = Case::new(plan(12, 0), 1, true);
    let transform = || {
        let mut values = case.given.clone();
        let options = NttOptions { verify: Verify::Probabilistic, ..NttOptions::default() };
        client.ntt(&mut values, options).map(|report| (report, values))
    };
    let Err(client::Error::Refused(refusal)) = transform() else { panic!("a wrong result") };
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::DataLoss, "VERIFY_FAILED"));
    let (report, values) = transform().unwrap();
    assert!(values == case.expected && report.execution.engine == "cuda");
    stop(child);
}
