//! MSMs of the engine with GPUs that lack memory, hit driver errors or are stopped, at every
//! possible point: one job fails, and the next one is right.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use capstan::{
    curve::{G1Affine, G2Affine, points::CurvePoint, scalars::ScalarEncoding},
    engine::{
        JobControl,
        cuda::{CudaEngine, GpuPolicy},
    },
    error::{EngineError, Result},
};

use crate::{
    known_msms::{MsmCase, engine, engine_with, is_exhausted, pass_count, splitting_policy},
    refusal::Refusal,
    rig::{CheckLimit, DeviceRig, control, on_emulated_driver},
    sweep,
    transforms::assert_pinned_memory_is_wiped,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// An MSM over its own bases.
type Job = Box<dyn Fn(&CudaEngine, &JobControl) -> Result<String>>;
/// Returns the same MSM over new bases at every call.
type JobFactory = Box<dyn Fn() -> Job>;

fn jobs<A: CurvePoint>(n: usize, batch: usize, encoding: ScalarEncoding) -> JobFactory {
    let case = Arc::new(MsmCase::<A>::new(n, batch, encoding));
    Box::new(move || {
        let (case, object) = (case.clone(), case.object());
        Box::new(move |engine, control| case.run_whole(engine, &object, control))
    })
}

fn all_jobs() -> [(&'static str, JobFactory); 4] {
    [
        ("one vector", jobs::<G1Affine>(13, 1, ScalarEncoding::Montgomery)),
        ("a batch", jobs::<G1Affine>(4, 2, ScalarEncoding::Canonical)),
        ("narrow scalars", jobs::<G1Affine>(5, 1, ScalarEncoding::Signed(2))),
        ("G2", jobs::<G2Affine>(3, 1, ScalarEncoding::Montgomery)),
    ]
}

/// Runs jobs with request number 1, 1 + `step`, ... refused, until they make no more requests. Each
/// job runs twice, the second time with new tables, then once with nothing refused.
/// Returns the numbers of refusals and of jobs that failed: a job without new tables succeeds.
fn every_refusal(
    engine: impl Fn() -> Rc<CudaEngine>,
    jobs: &JobFactory,
    step: usize,
    refusal: &Refusal<'_>,
) -> (usize, usize) {
    let (go, mut failed) = (JobControl::default(), 0);
    let attempt = |&nth: &u64| {
        let (engine, job) = (engine(), jobs());
        refusal.arm(nth);
        for _ in 0..2 {
            if let Err(error) = job(&engine, &go) {
                assert!(is_exhausted(&error) && refusal.is_met(), "number {nth}: {error:?}");
                failed += 1;
            }
            if refusal.is_met() {
                break;
            }
        }
        let is_met = refusal.disarm();
        job(&engine, &go).unwrap();
        is_met
    };
    let refused = (1..).step_by(step).take_while(attempt).count();
    (refused, failed)
}

#[test]
fn a_refused_lease_fails_at_most_one_job() {
    let rig = DeviceRig::new();
    let arena = rig.gpu.arena();
    let refusal = Refusal::of_leases(&rig);
    let shared = Rc::new(engine(&rig));
    let [one_vector, ..] = all_jobs();
    refuse_leases(&shared, one_vector, &refusal);
    drop(shared);
    // With a new engine, the lease of the workspace may fail, too.
    let jobs = jobs::<G2Affine>(2, 1, ScalarEncoding::Signed(2));
    let new = || Rc::new(engine(&rig));
    let (refused, failed) = every_refusal(new, &jobs, 1, &refusal);
    assert!(failed >= 10 && refused == failed + 2, "{failed} of {refused} failed");
    assert_pinned_memory_is_wiped(&rig);
    assert_eq!(arena.free_bytes(), arena.bytes());
}

/// Refuses each lease of a job in turn.
fn refuse_leases(engine: &Rc<CudaEngine>, (name, jobs): (&str, JobFactory), refusal: &Refusal<'_>) {
    let (refused, failed) = every_refusal(|| engine.clone(), &jobs, 1, refusal);
    println!("{name}: {refused} refused, {failed} failed");
    // Both uses need scalars, buckets and sums, the first one also bases. Only the leases for
    // tables may be refused without failing a job.
    assert!(failed >= 7 && refused == failed + 2, "{name}: {failed} of {refused} failed");
}

#[test]
#[ignore = "sweep"]
fn refused_leases_of_all_jobs_fail_at_most_one_job() {
    let rig = DeviceRig::new();
    let refusal = Refusal::of_leases(&rig);
    let engine = Rc::new(engine(&rig));
    for job in sweep::cases("leases of MSMs", all_jobs()) {
        refuse_leases(&engine, job, &refusal);
    }
    drop(engine);
    assert_pinned_memory_is_wiped(&rig);
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

/// The calls to refuse, each kind with its stride: one call of each stride is refused.
const CALLS: [(&str, usize); 3] =
    [("cuLaunchKernel:K:701", 9), ("copy:K:2", 3), ("cuEventCreate:K:2", 5)];

/// Refuses every `step`-th call of a job that `refusal` selects, one in each attempt.
fn refuse_calls(engine: &Rc<CudaEngine>, job: usize, step: usize, refusal: &Refusal<'_>) {
    let (name, jobs) = all_jobs().into_iter().nth(job).expect("a job");
    let (refused, failed) = every_refusal(|| engine.clone(), &jobs, step, refusal);
    println!("{name}: {refused} refused, {failed} failed");
    assert!(failed > 0, "{name}: {failed} of {refused}");
}

#[test]
fn a_refused_driver_call_fails_at_most_one_job() {
    on_emulated_driver(PATIENCE, |rig| {
        let engine = Rc::new(engine(rig));
        for (call, step) in CALLS {
            refuse_calls(&engine, 0, step, &Refusal::of_calls(rig, call));
        }
        assert!(rig.gpu.context().is_alive());
        assert_pinned_memory_is_wiped(rig);
    });
}

#[test]
#[ignore = "sweep"]
fn any_refused_driver_call_fails_at_most_one_job() {
    on_emulated_driver(PATIENCE, |rig| {
        let engine = Rc::new(engine(rig));
        let all = (0..4).flat_map(|job| CALLS.map(|(call, step)| (job, call, step)));
        for (job, call, step) in sweep::cases("driver calls of MSMs", all) {
            // The other jobs make mostly the same calls.
            let step = if job == 0 { 1 } else { step };
            refuse_calls(&engine, job, step, &Refusal::of_calls(rig, call));
        }
        assert!(rig.gpu.context().is_alive());
        assert_pinned_memory_is_wiped(rig);
    });
}

/// A job checks its control while it uploads bases, makes tables and launches passes.
#[test]
fn an_msm_stops_at_every_check() {
    let rig = DeviceRig::new();
    let limit = CheckLimit::new();
    let policy = GpuPolicy { cancellation_gate: limit.gate(), ..splitting_policy() };
    let engine = engine_with(&rig, policy);
    let case = MsmCase::<G1Affine>::new(33, 1, ScalarEncoding::Signed(2));
    let pieces = [0..9, 9..20, 20..21, 21..33];
    let mut stops = [0; 2];
    for checks in 0.. {
        let (object, control) = (case.object(), JobControl::default());
        limit.set(checks);
        let done = [(); 2].map(|()| case.run_slowly(&engine, &object, &pieces, &control));
        limit.set(u64::MAX);
        assert_pinned_memory_is_wiped(&rig);
        case.run(&engine, &object, &pieces, &JobControl::default()).unwrap();
        match done {
            [Ok(first), Ok(second)] => {
                assert!(pass_count(&first) > 1 && pass_count(&second) > 1, "{first}; {second}");
                break;
            }
            [Err(EngineError::Cancelled), Err(EngineError::Cancelled)] => stops[0] += 1,
            [Ok(_), Err(EngineError::Cancelled)] => stops[1] += 1,
            other => panic!("after {checks} checks: {other:?}"),
        }
    }
    println!("{stops:?} stops");
    // The first use checks for every piece and for the bases, the second for tables as well.
    assert!(stops[0] > pieces.len() && stops[1] > pieces.len() + 1, "{stops:?} stops");
    drop(engine);
    assert_eq!(rig.gpu.arena().free_bytes(), rig.gpu.arena().bytes());
}

#[test]
fn an_expired_deadline_stops_an_msm() {
    let rig = DeviceRig::new();
    let (engine, case) = (engine(&rig), MsmCase::<G2Affine>::new(9, 1, ScalarEncoding::Canonical));
    let (object, late) = (case.object(), JobControl::new(Some(Instant::now())));
    // Before its bases are on the device, and after.
    for _ in 0..2 {
        assert_eq!(case.run_whole(&engine, &object, &late), Err(EngineError::Deadline));
        case.run_whole(&engine, &object, &JobControl::default()).unwrap();
    }
}

#[test]
fn a_hang_is_noticed_while_the_job_yields() {
    on_emulated_driver(Duration::from_secs(2), |rig| {
        let engine = engine(rig);
        let case = MsmCase::<G1Affine>::new(45, 1, ScalarEncoding::Canonical);
        let object = case.object();
        case.run_whole(&engine, &object, &JobControl::default()).unwrap();
        let yielding = JobControl::default();
        yielding.set_yielding(true);
        // The first pass of the MSM, after its scalars were decoded.
        control::fault("cuLaunchKernel:3:hang");
        let lost = case.run_whole(&engine, &object, &yielding).unwrap_err();
        assert_eq!(lost, EngineError::DeviceLost);
        assert!(!rig.gpu.context().is_alive());
    });
}
