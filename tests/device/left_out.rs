//! Devices that cannot be used are left out, and those that can are used.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use ark_ec::AffineRepr;
use capstan::{
    curve::{
        Fr, G1Affine, Group,
        layout::fr_as_bytes,
        points::{CurvePoint, PointSlice},
        scalars::ScalarEncoding,
    },
    device::{self, Fault, LeftOut, Unusable, Wanted},
    engine::{
        Control, Encoded, Engine,
        cpu::CpuEngine,
        cuda::{
            CudaEngine, Least,
            self_test::{EMULATED, NttBatch, SelfTestSizes},
        },
    },
    msm::Cuts,
};

use crate::{
    daemon::{capstand, ready, stop},
    emulated,
    rig::{Rig, control, options, wanted, with_faults},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The first device has no memory for its arena.
const FIRST_FAILS: (&str, &str) = ("EMU_FAULT", "cuMemAlloc:1:2");

fn engine(rig: &Rig) -> Result<CudaEngine, Unusable> {
    let cpu = CpuEngine::new(1).unwrap();
    CudaEngine::new(cpu, rig.gpu.clone().into(), Least::default())
}

/// MSMs of these points alone.
const fn points(points: &'static [(Group, usize)]) -> SelfTestSizes {
    SelfTestSizes { points, batches: &[] }
}

/// NTTs of one row of 2^lg_n alone, in the passes of a batch that fills the device.
fn full_batch(lg_n: u32) -> SelfTestSizes {
    let batch = NttBatch { lg_n, rows: 1, planned_full: true };
    SelfTestSizes { points: &[], batches: vec![batch].leak() }
}

const G1: SelfTestSizes = points(&[(Group::G1, 40)]);
const G2: SelfTestSizes = points(&[(Group::G2, 20)]);
/// So many that digits are sorted by bins.
const BINS: SelfTestSizes = points(&[(Group::G1, 1 << 11)]);

/// What is wrong unless an engine with a self-test of these sizes refuses a device with this fault,
/// for `found`.
fn complaint(rig: &Rig, fault: &str, sizes: SelfTestSizes, found: &str) -> Option<String> {
    control::fault(fault);
    let (cpu, gpu) = (CpuEngine::new(1).unwrap(), rig.gpu.clone());
    let tested = CudaEngine::with_self_test(cpu, gpu.into(), Least::default(), sizes);
    control::fault("");
    match tested {
        Err(Unusable::Device { index: 0, fault: Fault::Wrong(what) }) if what.contains(found) => {
            None
        }
        Err(other) => Some(format!("{fault}: {other}")),
        Ok(_) => Some(format!("{fault}: not found")),
    }
}

#[test]
fn a_kernel_that_computes_wrong_is_found_before_the_first_job() {
    with_faults(PATIENCE, |rig| {
        let mut complaints = Vec::new();
        for (fault, sizes, found) in [
            ("msm_sort_direct:1:flip3", G1, "g1, as scalars arrive"),
            ("g1_balanced_share:1:flip", G1, "g1, as scalars arrive"),
            ("g1_balanced_join:1:flip", G1, "g1, as scalars arrive"),
            ("g1_balanced_merge:1:flip", G1, "g1, as scalars arrive"),
            ("g1_balanced_collect:2:flip", G1, "g1, as scalars arrive"),
            ("g1_whole_sums:1:flip", G1, "g1, without tables"),
            ("g1_tables:1:flip", G1, "g1, with tables"),
            ("g1_tree_first:1:flip", G1, "g1, by a tree"),
            ("g1_balanced_spread:1:flip", G1, "g1, by a tree"),
            ("g1_tables:2:flip", G1, "g1, with sliding windows"),
            ("g2_balanced_share:1:flip", G2, "g2, as scalars arrive"),
            ("g2_tree_level:1:flip", G2, "g2, by a tree"),
            ("g2_reduce_terms:2:flip", G2, "g2, without tables"),
            ("msm_partition:1:flip4", BINS, "g1, without tables"),
            ("msm_sort_tiles_16k:1:flip5", BINS, "g1, without tables"),
        ] {
            complaints.extend(complaint(rig, fault, sizes, found));
        }
        for (fault, sizes, found) in [
            ("ntt_descend_rows_e2:1:flip1", EMULATED, "1 rows of 2^6, natural to bit-reversed"),
            ("ntt_ascend_rows_e2:1:flip1", EMULATED, "1 rows of 2^6, bit-reversed to natural"),
            ("ntt_dot:1:flip3", EMULATED, "1 rows of 2^6, natural"),
            ("ntt_sum:1:flip1", EMULATED, "1 rows of 2^6, natural"),
            ("ntt_weights:1:flip0", EMULATED, "1 rows of 2^6, natural"),
            ("scalars_encode:1:flip0", EMULATED, "an inverse NTT of 1 rows of 2^6"),
            ("ntt_descend_columns_r5_c1_e1_b2:1:flip1", EMULATED, "1 rows of 2^10, natural"),
            ("ntt_ascend_merged_r10_c0_l4:1:flip1", EMULATED, "5 rows of 2^10, bit-reversed"),
            ("ntt_descend_columns_e1_b2:1:flip1", EMULATED, "1 rows of 2^11"),
            ("ntt_descend_columns_e3_b2:1:flip1", full_batch(11), "2^11, natural"),
            ("ntt_ascend_rows_r8_c0_e2:1:flip1", full_batch(11), "2^11, bit-reversed"),
            ("ntt_ascend_columns_r6_c2_e2_b2:1:flip1", full_batch(12), "2^12, bit-reversed"),
            ("ntt_descend_rows_r6_c2_e2:1:flip1", full_batch(12), "2^12, natural"),
            ("ntt_descend_merged_r6_c2_b0:1:flip1", full_batch(14), "2^14, natural"),
            ("ntt_descend_merged_r8_c1_l2:1:flip1", full_batch(14), "on a coset, natural"),
            ("g1_check_points:2:flip1", EMULATED, "a check of points in g1"),
            ("g2_check_points:1:flip1", EMULATED, "a check of points in g2"),
        ] {
            let sizes = SelfTestSizes { points: &[], ..sizes };
            complaints.extend(complaint(rig, fault, sizes, found));
        }
        assert!(complaints.is_empty(), "{complaints:#?}");
        // The device is well, and holds nothing of the tests.
        let free = rig.gpu.arena().free_bytes();
        let engine = engine(rig).unwrap();
        assert!(engine.left_out().is_empty());
        drop(engine);
        assert_eq!(rig.gpu.arena().free_bytes(), free);
    });
}

/// The first of two devices computes wrong. In a process of its own, whose driver has two.
#[test]
fn a_device_that_fails_its_test_does_not_keep_another_from_use() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "left_out::one_of_two_devices", "--nocapture"]);
    let output = command.env("EMU_DEVICES", "2").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(ONE_OF_TWO), "{output:?}");
}

const ONE_OF_TWO: &str = "device 1 serves";

/// Does nothing but in the process of the test above.
#[test]
fn one_of_two_devices() {
    if std::env::var("EMU_DEVICES").as_deref() != Ok("2") {
        return;
    }
    let (options, _) = options(PATIENCE);
    let opened = device::open(&Wanted { devices: vec![0, 1], ..wanted() }, &options).unwrap();
    assert!(opened.gpus.len() == 2 && opened.left_out.is_empty());
    // The first device's: devices are tested in their order.
    control::fault("g1_whole_sums:1:flip");
    let (cpu, cuts) = (CpuEngine::new(1).unwrap(), Cuts::default());
    let engine = CudaEngine::with_cuts(cpu, opened, Least::default(), cuts).unwrap();
    let [LeftOut { index: 0, reason: Unusable::Device { index: 0, fault: Fault::Wrong(what) } }] =
        engine.left_out()
    else {
        panic!("{:?}", engine.left_out())
    };
    assert!(what.contains("in g1, without tables"), "{what}");
    let indices = engine.devices().into_iter().filter_map(|device| Some(device.gpu?.index));
    assert_eq!((engine.gpus(), indices.collect::<Vec<_>>()), (1, vec![1]));
    // Every job is the other device's.
    for _ in 0..2 {
        let points = Arc::new(vec![G1Affine::generator(); 3]);
        let scalars = [2, 3, 4].map(Fr::from);
        let mut run = engine.msm(G1Affine::bases(PointSlice::new(points)), 1).unwrap();
        let bytes = fr_as_bytes(&scalars);
        let encoded = Encoded::new(ScalarEncoding::Montgomery, 3, &bytes);
        run.absorb(0, 0, &encoded, &Control::default()).unwrap();
        let (sums, executor) = run.finish().unwrap();
        assert_eq!(G1Affine::of_sums(sums), Some(vec![G1Affine::generator() * Fr::from(9)]));
        assert!(executor.device.starts_with("emulated device 1"), "{executor:?}");
    }
    println!("{ONE_OF_TWO}");
}

#[test]
fn a_device_that_cannot_be_used_does_not_keep_others_from_use() {
    if emulated::driver().is_none() {
        return println!("skipped: faults are not injected into a GPU");
    }
    let gpus = |flags: &[&str]| {
        let own = ["--engine", "cuda", "--cuda-driver"];
        let library = emulated::driver().unwrap();
        let library = library.to_str().unwrap();
        let memory = ["--cuda-memory-percent", "10"];
        let flags = [&own, &[library][..], &memory, flags].concat();
        capstand(&flags, &[("EMU_DEVICES", "2"), FIRST_FAILS])
    };
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (child, log, _) = ready(&mut gpus(&["--metrics-listen", &metrics.to_string()]));
    let left_out = |line: &str| line.contains("a GPU is left out") && line.contains("device=0");
    assert!(log.lines().any(|line| line.contains("WARN") && left_out(line)), "{log}");
    assert!(log.contains("1 GPUs passed their self-test"), "{log}");
    let text = scrape(metrics);
    for line in [r#"capstan_devices{state="used"} 1"#, r#"capstan_devices{state="left_out"} 1"#] {
        assert!(text.contains(line), "{text}");
    }
    stop(child);
    // Operators may prefer that the daemon does not start.
    let output = gpus(&["--cuda-devices-min", "2"]).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{log}");
    assert!(log.contains("1 GPUs can be used; cuda_devices_min is 2"), "{log}");
}

#[test]
fn a_fall_back_to_the_cpu_on_a_host_with_a_gpu_is_a_warning() {
    let Some(library) = emulated::driver() else { return println!("skipped: as above") };
    let flags = ["--cuda-driver", library.to_str().unwrap()];
    let (child, log, _) = ready(&mut capstand(&flags, &[FIRST_FAILS]));
    let warns = |line: &str| line.contains("WARN") && line.contains("no GPU of this host is used");
    assert!(log.lines().any(warns), "{log}");
    stop(child);
    // Unless it must not be.
    let flags = [&flags[..], &["--cuda-devices-min", "1"]].concat();
    let output = capstand(&flags, &[FIRST_FAILS]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    // Nor is the lack of a GPU anything to warn of.
    let flags = ["--cuda-driver", "/nonexistent/libcuda.so"];
    let (child, log, _) = ready(&mut capstand(&flags, &[]));
    assert!(!log.contains("WARN"), "{log}");
    stop(child);
}

fn scrape(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}
