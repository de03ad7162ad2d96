//! Unusable devices are left out, and the others are used.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ark_ec::AffineRepr;
use capstan::{
    curve::{
        Fr, G1Affine, Group,
        layout::fr_as_bytes,
        points::{CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    device::{self, DeviceFault, DeviceSelection, GpuUnavailable, UnusableDevice},
    engine::{
        ComputedMsm, EncodedScalars, JobControl, MsmNttEngine,
        cpu::CpuEngine,
        cuda::{
            CudaEngine, GpuPolicy,
            self_test::{EMULATED, NttBatch, SelfTestBases, SelfTestSizes},
        },
    },
};

use crate::{
    daemon::{LoggedDaemon, METRICS, MeasuredDaemon, capstand, metric, start_with_metrics, stop},
    emulated,
    rig::{DeviceRig, control, fault_of_device_0, first_device, on_emulated_driver, options},
    sweep,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The first device has no memory for its arena.
const FIRST_FAILS: (&str, &str) = ("EMU_FAULT", "cuMemAlloc:1:2");

fn engine(rig: &DeviceRig, self_test: Option<SelfTestSizes>) -> Result<CudaEngine, GpuUnavailable> {
    let policy = GpuPolicy { self_test, ..GpuPolicy::default() };
    CudaEngine::new(CpuEngine::new(1).unwrap(), rig.gpu.clone().into(), policy)
}

/// Sizes of a self-test with MSMs only.
const fn points(points: &'static [SelfTestBases]) -> SelfTestSizes {
    SelfTestSizes { points, ..SelfTestSizes::NONE }
}

/// Sizes of a self-test with NTTs of one row of 2^lg_n only, with passes for a batch that fills the
/// device.
fn full_batch(lg_n: u32) -> SelfTestSizes {
    let batch = NttBatch { lg_n, rows: 1, planned_full: true };
    SelfTestSizes { batches: vec![batch].leak(), ..SelfTestSizes::NONE }
}

const G1: SelfTestSizes = points(&[SelfTestBases { group: Group::G1, count: 40 }]);
const G2: SelfTestSizes = points(&[SelfTestBases { group: Group::G2, count: 20 }]);
/// Enough points for digits to be sorted by bins.
const BINS: SelfTestSizes = points(&[SelfTestBases { group: Group::G1, count: 1 << 11 }]);

/// The jobs of the self-test with integers and matrices of bits.
const STEPS: SelfTestSizes = SelfTestSizes {
    integers: EMULATED.integers,
    eliminations: EMULATED.eliminations,
    ..SelfTestSizes::NONE
};

/// A fault of each kernel of `kernels/integers` and `kernels/gf2` that the emulated device uses,
/// and what the self-test says of it.
pub const STEP_FAULTS: [(&str, &str); 13] = [
    ("integers_limbs_1:1:flip4", "2 products of integers of 41 and 30 limbs"),
    ("integers_limbs_3:1:flip4", "1 products of integers of 1050 and 1000 limbs"),
    ("integers_carries:1:flip2", "2 products of integers of 41 and 30 limbs"),
    ("integers_add_carries:1:flip4", "2 products of integers of 41 and 30 limbs"),
    ("integers_sum:1:flip9", "2 products of integers of 41 and 30 limbs"),
    ("gf2_to_strips:1:flip5", "an echelon form of 20 rows of 300 bits"),
    ("gf2_from_strips:1:flip5", "an echelon form of 20 rows of 300 bits"),
    ("gf2_leading_columns:1:flip3", "a reduction of 20 rows of 300 bits by 15 pivots"),
    ("gf2_promoted_columns:1:flip2", "an echelon form of 20 rows of 300 bits"),
    ("gf2_pivot_order:1:flip2", "an echelon form of 20 rows of 300 bits"),
    ("gf2_first_panel:1:flip6", "an echelon form of 20 rows of 300 bits"),
    ("gf2_pivots:1:flip9", "an echelon form of 20 rows of 300 bits"),
    ("gf2_update:1:flip0", "an echelon form of 20 rows of 300 bits"),
];

/// Injects a fault and runs a self-test of these sizes. Returns a complaint unless the self-test
/// fails, and its message contains `found`.
fn complaint(rig: &DeviceRig, fault: &str, sizes: SelfTestSizes, found: &str) -> Option<String> {
    control::fault(fault);
    let tested = engine(rig, Some(sizes));
    control::fault("");
    let Err(unusable) = tested else { return Some(format!("{fault}: the self-test passed")) };
    match fault_of_device_0(&unusable) {
        DeviceFault::WrongResult(what) if what.contains(found) => None,
        other => Some(format!("{fault}: {other}")),
    }
}

/// A fault, the sizes of a self-test that finds it, and words of the self-test's error.
type FoundFault = (&'static str, SelfTestSizes, &'static str);

/// Faults of kernels of MSMs.
const MSM_FAULTS: [FoundFault; 15] = [
    ("msm_sort_direct:1:flip3", G1, "g1, as scalars arrive"),
    ("g1_balanced_share:1:flip", G1, "g1, as scalars arrive"),
    ("g1_balanced_join:1:flip", G1, "g1, as scalars arrive"),
    ("g1_balanced_merge:1:flip", G1, "g1, as scalars arrive"),
    ("g1_balanced_to_affine:2:flip", G1, "g1, as scalars arrive"),
    ("g1_bucket_team_sums:1:flip", G1, "g1, without tables"),
    ("g1_tables:1:flip", G1, "g1, with tables"),
    ("g1_tree_first:1:flip", G1, "g1, by a tree"),
    ("g1_balanced_to_xyzz:1:flip", G1, "g1, by a tree"),
    ("g1_tables:2:flip", G1, "g1, with sliding windows"),
    ("g2_balanced_share:1:flip", G2, "g2, as scalars arrive"),
    ("g2_tree_level:1:flip", G2, "g2, by a tree"),
    ("g2_reduce_terms:2:flip", G2, "g2, without tables"),
    ("msm_partition:1:flip4", BINS, "g1, without tables"),
    ("msm_sort_tiles_16k:1:flip5", BINS, "g1, without tables"),
];

/// Faults of kernels of NTTs and of checks of points.
fn ntt_faults() -> [FoundFault; 18] {
    [
        ("ntt_dif_rows_e2:1:flip1", EMULATED, "1 rows of 2^6, natural to bit-reversed"),
        ("ntt_dit_rows_e2:1:flip1", EMULATED, "1 rows of 2^6, bit-reversed to natural"),
        ("fr_dot_chunks:1:flip3", EMULATED, "1 rows of 2^6, natural"),
        ("fr_sum_chunks:1:flip1", EMULATED, "1 rows of 2^6, natural"),
        ("barycentric_weights:1:flip0", EMULATED, "1 rows of 2^6, natural"),
        ("scalars_encode:1:flip0", EMULATED, "an inverse NTT of 1 rows of 2^6"),
        ("ntt_dif_columns_r5_c1_e1_b2:1:flip1", EMULATED, "1 rows of 2^10, natural"),
        ("ntt_dit_fused_r10_c0_l4:1:flip1", EMULATED, "5 rows of 2^10, bit-reversed"),
        ("ntt_dif_columns_e1_b2:1:flip1", EMULATED, "1 rows of 2^11"),
        ("ntt_dif_columns_e3_b2:1:flip1", full_batch(11), "2^11, natural"),
        ("ntt_dit_rows_r8_c0_e2:1:flip1", full_batch(11), "2^11, bit-reversed"),
        ("ntt_dit_columns_r6_c2_e2_b2:1:flip1", full_batch(12), "2^12, bit-reversed"),
        ("ntt_dif_rows_r6_c2_e2:1:flip1", full_batch(12), "2^12, natural"),
        ("ntt_dif_fused_r6_c2_b0:1:flip1", full_batch(14), "2^14, natural"),
        ("ntt_dif_fused_r8_c1_l2:1:flip1", full_batch(14), "on a coset, natural"),
        ("g1_check_points:2:flip1", EMULATED, "a check of points in g1"),
        ("g1_check_points:3:flip0", EMULATED, "a decoding of points in g1"),
        ("g2_check_points:1:flip1", EMULATED, "a check of points in g2"),
    ]
}

/// Faults of kernels of all kinds.
fn all_faults() -> Vec<FoundFault> {
    let without_points =
        |(fault, sizes, found)| (fault, SelfTestSizes { points: &[], ..sizes }, found);
    let steps = STEP_FAULTS.map(|(fault, found)| (fault, STEPS, found));
    MSM_FAULTS.into_iter().chain(ntt_faults().map(without_points)).chain(steps).collect()
}

/// Checks that the self-test finds each of these faults.
fn find_faults(faults: &[FoundFault]) {
    on_emulated_driver(PATIENCE, |rig| {
        let found = |(fault, sizes, found): &FoundFault| complaint(rig, fault, *sizes, found);
        let complaints: Vec<_> = faults.iter().filter_map(found).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        // The device still works, and the self-tests have freed their memory.
        let free = rig.gpu.arena().free_bytes();
        let engine = engine(rig, None).unwrap();
        assert!(engine.left_out().is_empty());
        drop(engine);
        assert_eq!(rig.gpu.arena().free_bytes(), free);
    });
}

/// For each kind of job, a fault of one kernel.
#[test]
fn the_self_test_finds_kernels_that_compute_wrong() {
    const KERNELS: [&str; 10] = [
        "msm_sort_direct",
        "g1_tables",
        "g2_balanced_share",
        "msm_partition",
        "ntt_dif_rows_e2",
        "fr_dot_chunks",
        "ntt_dit_fused_r10_c0_l4",
        "g1_check_points",
        "integers_limbs_1",
        "gf2_update",
    ];
    let of_kernel = |kernel| {
        let is_its = |(fault, ..): &FoundFault| fault.split(':').next() == Some(kernel);
        all_faults().into_iter().find(is_its).expect("a fault of each kernel")
    };
    find_faults(&KERNELS.map(of_kernel));
}

#[test]
#[ignore = "sweep"]
fn the_self_test_finds_each_kernel_that_computes_wrong() {
    find_faults(&sweep::cases("faults that the self-test finds", all_faults()));
}

/// Daemons run the self-test under schedule 0, the natural order.
#[test]
fn the_self_test_passes_under_another_schedule() {
    pass_under(&[1]);
}

#[test]
#[ignore = "sweep"]
fn the_self_test_passes_under_each_schedule() {
    pass_under(&sweep::cases("schedules of the self-test", [1, 2, 3, 0xfeed]));
}

fn pass_under(seeds: &[u64]) {
    on_emulated_driver(PATIENCE, |rig| {
        for seed in seeds {
            control::seed(*seed);
            let tested = engine(rig, None);
            control::seed(0);
            assert_eq!(tested.unwrap().gpu_count(), 1, "seed {seed}");
        }
    });
}

/// A GPU with memory for several jobs of the self-test runs them at the same time.
#[test]
fn jobs_of_the_self_test_at_the_same_time_find_faults_and_pass_without() {
    const AT_ONCE: SelfTestSizes = SelfTestSizes { job_bytes: 1, ..EMULATED };
    on_emulated_driver(PATIENCE, |rig| {
        for (fault, found) in [
            ("g1_tables:1:flip", "g1, with tables"),
            ("g2_check_points:1:flip1", "a check of points in g2"),
            ("integers_sum:1:flip9", "products of integers"),
        ] {
            assert_eq!(complaint(rig, fault, AT_ONCE, found), None);
        }
        assert_eq!(engine(rig, Some(AT_ONCE)).unwrap().gpu_count(), 1);
    });
}

#[test]
fn the_self_test_skips_what_a_small_arena_has_no_memory_for() {
    const TOO_LARGE: SelfTestBases = SelfTestBases { group: Group::G1, count: 1 << 20 };
    on_emulated_driver(PATIENCE, |rig| {
        assert!(rig.gpu.arena().bytes() < TOO_LARGE.count as u64 * 96);
        let row = |lg_n| NttBatch { lg_n, rows: 1, planned_full: false };
        let sizes = SelfTestSizes {
            points: &[TOO_LARGE, SelfTestBases { group: Group::G1, count: 40 }],
            batches: vec![row(22), row(6)].leak(),
            ..SelfTestSizes::NONE
        };
        assert_eq!(engine(rig, Some(sizes)).unwrap().gpu_count(), 1);
        // A kind of job that was not tested at all must not serve.
        let unusable = engine(rig, Some(points(&[TOO_LARGE]))).err().unwrap();
        assert!(matches!(fault_of_device_0(&unusable), DeviceFault::OutOfMemory { .. }));
    });
}

/// The first of two devices computes wrong results. Runs in its own process, in which the driver
/// has two devices.
#[test]
fn a_device_that_fails_its_self_test_is_left_out_and_another_serves() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "unusable::serves_with_one_of_two_devices", "--nocapture"]);
    let output = command.env("EMU_DEVICES", "2").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(ONE_OF_TWO), "{output:?}");
}

const ONE_OF_TWO: &str = "device 1 serves";

/// Does nothing except in the process of the test above.
#[test]
fn serves_with_one_of_two_devices() {
    if std::env::var("EMU_DEVICES").as_deref() != Ok("2") {
        return;
    }
    let (options, _) = options(PATIENCE);
    let opened =
        device::open(&DeviceSelection { devices: vec![0, 1], ..first_device() }, &options).unwrap();
    assert!(opened.gpus.len() == 2 && opened.unusable.is_empty());
    // The first device gets the fault: devices are tested in their order.
    control::fault("g1_bucket_team_sums:1:flip");
    let cpu = CpuEngine::new(1).unwrap();
    let engine = CudaEngine::new(cpu, opened, GpuPolicy::default()).unwrap();
    let [UnusableDevice { index: 0, reason }] = engine.left_out() else {
        panic!("{:?}", engine.left_out())
    };
    let GpuUnavailable::Device { index: 0, fault: DeviceFault::WrongResult(what) } = reason else {
        panic!("{reason:?}")
    };
    assert!(what.contains("in g1, without tables"), "{what}");
    let indices = engine.devices().into_iter().filter_map(|device| Some(device.gpu?.index));
    assert_eq!((engine.gpu_count(), indices.collect::<Vec<_>>()), (1, vec![1]));
    // The other device runs every job.
    for _ in 0..2 {
        let points = Arc::new(vec![G1Affine::generator(); 3]);
        let scalars = [2, 3, 4].map(Fr::from);
        let mut run = engine.msm(G1Affine::into_bases(PointSlice::new(points)), 1).unwrap();
        let bytes = fr_as_bytes(&scalars);
        let encoded = EncodedScalars::new(ScalarEncoding::Montgomery, 3, &bytes);
        run.absorb(0, 0, &encoded, &JobControl::default()).unwrap();
        let ComputedMsm { sums, executor } = run.finish().unwrap();
        assert_eq!(G1Affine::from_sums(sums), Some(vec![G1Affine::generator() * Fr::from(9)]));
        assert!(executor.device.starts_with("emulated device 1"), "{executor:?}");
    }
    println!("{ONE_OF_TWO}");
}

#[test]
fn an_unusable_device_is_left_out_and_the_others_serve() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    let gpus = |flags: &[&str]| {
        let own = ["--engine", "cuda", "--cuda-driver"];
        let library = emulated::driver().unwrap();
        let library = library.to_str().unwrap();
        let memory = ["--cuda-memory-percent", "10"];
        // In one process, the first device alone has the fault.
        let here = ["--gpu-isolation", "none"];
        let flags = [&own, &[library][..], &memory, &here, flags].concat();
        capstand(&flags, &[("EMU_DEVICES", "2"), FIRST_FAILS])
    };
    let daemon = LoggedDaemon::ready(&mut gpus(&METRICS));
    let log = daemon.text();
    let left_out = |line: &str| line.contains("a GPU is left out") && line.contains("device=0");
    assert!(log.lines().any(|line| line.contains("WARN") && left_out(line)), "{log}");
    assert!(log.contains("1 GPU passed its self-test; 1 cannot be used"), "{log}");
    assert_eq!(counted(daemon.metrics()), (1, 1));
    stop(daemon.child);
    // With `cuda_devices_min`, the daemon does not start instead.
    let output = gpus(&["--cuda-devices-min", "2"]).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{log}");
    assert!(log.contains("1 cannot be used; cuda_devices_min is 2"), "{log}");
}

#[test]
fn a_device_whose_worker_cannot_serve_is_left_out() {
    let flags = ["--engine", "cuda", "--cuda-devices", "0,77"];
    let MeasuredDaemon { child, metrics, .. } = start_with_metrics(&flags, &[]);
    assert_eq!(counted(metrics), (1, 1));
    stop(child);
}

#[test]
fn falling_back_to_the_cpu_on_a_gpu_host_is_a_warning() {
    let Some(library) = emulated::driver() else { return println!("skipped: not on a GPU") };
    let flags = ["--cuda-driver", library.to_str().unwrap()];
    let with_metrics = [&flags[..], &METRICS].concat();
    let daemon = LoggedDaemon::ready(&mut capstand(&with_metrics, &[FIRST_FAILS]));
    let log = daemon.text();
    let warns = |line: &str| line.contains("WARN") && line.contains("no GPU of this host is used");
    assert!(log.lines().any(warns), "{log}");
    assert_eq!(counted(daemon.metrics()), (0, 1));
    stop(daemon.child);
    // With `cuda_devices_min`, it is an error.
    let flags = [&flags[..], &["--cuda-devices-min", "1"]].concat();
    let output = capstand(&flags, &[FIRST_FAILS]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    // A host without a GPU gets no warning.
    let missing = "/nonexistent/libcuda.so";
    let host_has_gpu = GpuUnavailable::NoDevice.is_on_a_gpu_host();
    let daemon = LoggedDaemon::ready(&mut capstand(&["--cuda-driver", missing], &[]));
    assert_eq!(daemon.text().contains("WARN"), host_has_gpu, "{}", daemon.text());
    stop(daemon.child);
}

/// Used and left out GPUs, by the metrics.
fn counted(metrics: SocketAddr) -> (u64, u64) {
    let devices = |state: &str| metric(metrics, &format!(r#"capstan_devices{{state="{state}"}}"#));
    (devices("used"), devices("left_out"))
}
