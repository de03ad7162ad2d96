//! Plans of MSMs on devices of every class, up to sizes that are too large to run in tests.

use capstan::{
    curve::Group,
    device::DeviceLimits,
    msm::{
        BaseMemory, MsmBudget, MsmPass, MsmPassPlan, MsmSize, ResidentPlan, SplitThresholds,
        tables::scratch_bytes,
    },
};

use crate::{limits::PRESETS, repeat::some_of};

/// Bytes of arenas: most of a small GPU, and most of an H200.
const ARENAS: [u64; 2] = [20 << 30, 125 << 30];

/// A length of passes.
const SHORT_PASS_NS: f64 = 2.5e6;

/// Passes cover every scalar of every set once, and fit into the memory.
fn check(plan: &MsmPassPlan, budget: MsmBudget) {
    assert!(plan.bytes() <= budget.bytes, "{budget:?}: {plan}");
    let (job, mut taken, workspace) = (*plan.job(), 0, plan.workspace_bytes());
    for pass in plan.passes() {
        let own = (pass.accumulate, pass.reduces);
        assert_eq!(own, (pass.points.start > 0, pass.points.end == job.n), "{job:?}: {plan}");
        taken += pass.scalars() * pass.sets.len() as u64;
        assert!(plan.pass_bytes(&pass) <= workspace, "{job:?}: {plan}");
    }
    let all = u64::from(job.vectors) * u64::from(plan.windows().sets()) * u64::from(job.n);
    assert_eq!(taken, all, "{job:?}: {plan}");
    let mut streamed = plan.clone();
    if streamed.enable_streaming() {
        let halves = [0..job.n / 2, job.n / 2..job.n].map(|points| streamed.pass_over(points));
        let most = halves.iter().map(|pass| streamed.pass_bytes(pass)).max();
        assert!(most <= Some(workspace), "{job:?}: {plan}");
    }
}

fn check_size(limits: DeviceLimits, all: u64, group: Group, lg_n: u32) {
    let n = 1 << lg_n;
    let memory =
        BaseMemory { total: all, free: all, table_scratch: scratch_bytes(group, n, &limits) };
    let stages = ResidentPlan::stages(group, n, limits, memory);
    let small = u64::from(n) * group.affine_bytes() as u64 <= all / 8;
    assert!(!stages.is_empty() || !small, "{group:?}, 2^{lg_n}, {limits:?}");
    for stage in stages {
        let budget = MsmBudget { bytes: all - stage.table_bytes, limits };
        check(&stage.plan, budget);
        let made = Some(stage.plan.windows()).filter(|windows| windows.tables() > 1);
        // Larger batches have thousands of passes, which take long to check.
        let batches: &[u32] = if lg_n <= 16 { &[3, 1000] } else { &[3] };
        for &vectors in batches {
            let job = MsmSize { group, n, vectors };
            let windows = job.choose_windows_for_tables(made, &limits);
            let plan = MsmPassPlan::with_thresholds(job, windows, budget, SplitThresholds::USUAL);
            assert!(plan.is_some() || !small, "{job:?}, {limits:?}");
            plan.iter().for_each(|plan| {
                check(plan, budget);
                check(&plan.clone().with_passes_of(SHORT_PASS_NS, budget), budget);
            });
        }
    }
}

#[test]
fn plans_fit_the_memory_of_every_device() {
    for (number, (device, limits)) in PRESETS.into_iter().enumerate() {
        for all in ARENAS {
            println!("{device}, {} GiB", all >> 30);
            for lg_n in some_of((0..=26).step_by(2), 2, number) {
                check_size(limits, all, Group::G1, lg_n);
                check_size(limits, all, Group::G2, lg_n);
            }
        }
    }
}

fn job(n: u32, vectors: u32) -> MsmSize {
    MsmSize { group: Group::G1, n, vectors }
}

fn plan(job: MsmSize, tables: u32, budget: MsmBudget) -> Option<MsmPassPlan> {
    MsmPassPlan::new(job, job.choose_windows(tables, &budget.limits), budget)
}

#[test]
fn passes_become_shorter_down_to_parts_of_a_vector() {
    let budget = h200(64 << 30);
    let passes = |n, vectors| -> Vec<_> {
        let plan = plan(job(n, vectors), 1, budget).expect("enough memory");
        let whole_ns = job(n, vectors).model_ns(plan.windows(), &budget.limits);
        let parts: Vec<_> = plan.with_passes_of(SHORT_PASS_NS, budget).passes().collect();
        let fewest = (whole_ns / SHORT_PASS_NS).ceil() as usize;
        assert!((fewest..=4 * fewest).contains(&parts.len()), "{n} x {vectors}: {parts:?}");
        parts
    };
    assert_eq!(passes(1 << 10, 2).len(), 1, "short as it is");
    assert!(passes(1 << 16, 64).iter().all(|pass| pass.points.len() == 1 << 16));
    assert!(passes(1 << 23, 2).iter().all(|pass| pass.vectors.len() == 1));
}

fn h200(bytes: u64) -> MsmBudget {
    MsmBudget { bytes, limits: DeviceLimits::H200 }
}

#[test]
fn passes_cover_every_scalar_of_every_set_once() {
    for (job, tables, bytes) in [
        (job(0, 1), 1, 8 << 30),
        (job(1, 3), 64, 8 << 30),
        (job(1 << 20, 1), 1, 2 << 30),
        (job(1 << 20, 1), 64, 1 << 30),
        (job(1 << 10, 1000), 64, 1 << 30),
        (job(1 << 26, 1), 12, 24 << 30),
        (job((1 << 22) + 3, 1), 64, 24 << 30),
    ] {
        check(&plan(job, tables, h200(bytes)).expect("enough memory"), h200(bytes));
    }
    assert!(plan(job(1 << 24, 1), 1, h200(1 << 20)).is_none());
}

#[test]
fn counts_scalars_beyond_32_bits() {
    let (vectors, points) = (300..400, 1 << 25..1 << 26);
    let pass = MsmPass { vectors, sets: 0..1, points, accumulate: true, reduces: true };
    assert_eq!(pass.first_scalar(1 << 26), (300 << 26) + (1 << 25));
    assert_eq!(pass.scalars(), 100 << 25);
}

#[test]
fn displays_windows_and_tables() {
    for (lg_n, tables, begins, ends) in [
        (20, 300, "sliding windows of 2", " bits, 255 tables"),
        (20, 13, "13 windows of 20 bits", ", 13 tables"),
        (10, 1, "", ", no tables"),
    ] {
        let plan = plan(job(1 << lg_n, 1), tables, h200(64 << 30));
        let plan = plan.expect("enough memory").to_string();
        assert!(plan.starts_with(begins) && plan.ends_with(ends), "{plan}");
    }
}

#[test]
fn scalars_beyond_2_to_the_32_have_their_own_index() {
    let (vectors, points) = (3..4, 5..6);
    let pass = MsmPass { vectors, sets: 0..1, points, accumulate: true, reduces: false };
    assert_eq!(pass.first_scalar(1 << 31), (3 << 31) + 5);
}
