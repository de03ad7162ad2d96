//! Plans of MSMs on devices of every class, up to sizes that are too large to run in tests.

use capstan::{
    curve::Group,
    device::DeviceLimits,
    msm::{
        BaseMemory, MsmBudget, MsmPass, MsmPassPlan, MsmSize, ResidentPlan, SplitThresholds,
        tables::scratch_bytes,
    },
};

use crate::limits::PRESETS;

/// Bytes of arenas: most of a small GPU, and most of an H200.
const ARENAS: [u64; 2] = [20 << 30, 125 << 30];

/// Passes cover every scalar of every set once, and fit into the memory.
fn check(plan: &MsmPassPlan, room: MsmBudget) {
    assert!(plan.bytes() <= room.bytes, "{room:?}: {plan}");
    let (job, mut taken, workspace) = (*plan.job(), 0, plan.workspace_bytes());
    for pass in plan.passes() {
        let MsmPass { vectors, sets, points, accumulate: onto, reduces: last } = pass;
        assert_eq!((onto, last), (points.0 > 0, points.0 + points.1 == job.n), "{job:?}: {plan}");
        taken += u64::from(vectors.1) * u64::from(sets.1) * u64::from(points.1);
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
        let room = MsmBudget { bytes: all - stage.bytes, limits };
        check(&stage.plan, room);
        let made = Some(stage.plan.windows()).filter(|windows| windows.tables() > 1);
        // Larger batches have thousands of passes, which take long to check.
        let batches: &[u32] = if lg_n <= 16 { &[3, 1000] } else { &[3] };
        for &vectors in batches {
            let job = MsmSize { group, n, vectors };
            let windows = job.choose_windows_for_tables(made, &limits);
            let plan = MsmPassPlan::with_thresholds(job, windows, room, SplitThresholds::USUAL);
            assert!(plan.is_some() || !small, "{job:?}, {limits:?}");
            plan.iter().for_each(|plan| check(plan, room));
        }
    }
}

#[test]
fn plans_fit_the_memory_of_every_device() {
    for (device, limits) in PRESETS {
        for all in ARENAS {
            println!("{device}, {} GiB", all >> 30);
            for lg_n in (0..=26).step_by(2) {
                check_size(limits, all, Group::G1, lg_n);
                check_size(limits, all, Group::G2, lg_n);
            }
        }
    }
}
