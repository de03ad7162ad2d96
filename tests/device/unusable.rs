//! Unusable devices are left out, and the others are used.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use capstan::{
    device::{DeviceFault, GpuUnavailable},
    engine::{
        cpu::CpuEngine,
        cuda::{CudaEngine, GpuThresholds},
    },
};

use crate::{
    daemon::{capstand, ready, stop},
    emulated,
    rig::{DeviceRig, control, fault_of_device_0, on_emulated_driver},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The first device has no memory for its arena.
const FIRST_FAILS: (&str, &str) = ("EMU_FAULT", "cuMemAlloc:1:2");

fn engine(rig: &DeviceRig) -> Result<CudaEngine, GpuUnavailable> {
    let cpu = CpuEngine::new(1).unwrap();
    CudaEngine::new(cpu, rig.gpu.clone().into(), GpuThresholds::default())
}

#[test]
fn the_self_test_finds_kernels_that_compute_wrong() {
    on_emulated_driver(PATIENCE, |rig| {
        for (fault, found) in [
            ("g1_whole_sums:1:flip", "an MSM in g1, without tables"),
            ("g1_tables:1:flip", "an MSM in g1, with tables"),
            ("g1_tree_first:1:flip", "an MSM in g1, by a tree"),
            ("g2_tree_level:1:flip", "an MSM in g2, by a tree"),
            ("g2_reduce_terms:1:flip", "an MSM in g2, without tables"),
            ("ntt_descend_rows_e1:1:flip1", "an NTT of 2^5"),
            ("g1_check_points:2:flip1", "a check of points in g1"),
            ("g2_check_points:1:flip1", "a check of points in g2"),
        ] {
            control::fault(fault);
            let Err(unusable) = engine(rig) else { panic!("{fault}: the self-test passed") };
            let wrong = fault_of_device_0(&unusable);
            let DeviceFault::WrongResult(what) = wrong else { panic!("{fault}: {wrong}") };
            assert!(what.contains(found), "{fault}: {what}");
            control::fault("");
        }
        // The device still works, and the self-tests have freed their memory.
        let free = rig.gpu.arena().free_bytes();
        let engine = engine(rig).unwrap();
        assert!(engine.left_out().is_empty());
        drop(engine);
        assert_eq!(rig.gpu.arena().free_bytes(), free);
    });
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
        let flags = [&own, &[library][..], &memory, flags].concat();
        capstand(&flags, &[("EMU_DEVICES", "2"), FIRST_FAILS])
    };
    let metrics = free_address();
    let (child, log, _) = ready(&mut gpus(&["--metrics-listen", &metrics.to_string()]));
    let left_out = |line: &str| line.contains("a GPU is left out") && line.contains("device=0");
    assert!(log.lines().any(|line| line.contains("WARN") && left_out(line)), "{log}");
    assert!(log.contains("1 GPU passed its self-test; 1 cannot be used"), "{log}");
    assert_eq!(counted(metrics), (1, 1));
    stop(child);
    // With `cuda_devices_min`, the daemon does not start instead.
    let output = gpus(&["--cuda-devices-min", "2"]).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{log}");
    assert!(log.contains("1 cannot be used; cuda_devices_min is 2"), "{log}");
}

#[test]
fn falling_back_to_the_cpu_on_a_gpu_host_is_a_warning() {
    let Some(library) = emulated::driver() else { return println!("skipped: not on a GPU") };
    let flags = ["--cuda-driver", library.to_str().unwrap()];
    let metrics = free_address();
    let listen = metrics.to_string();
    let with_metrics = [&flags[..], &["--metrics-listen", &listen]].concat();
    let (child, log, _) = ready(&mut capstand(&with_metrics, &[FIRST_FAILS]));
    for words in ["no GPU of this host is used", "a GPU is left out"] {
        let warns = |line: &str| line.contains("WARN") && line.contains(words);
        assert!(log.lines().any(warns), "{words}: {log}");
    }
    assert_eq!(counted(metrics), (0, 1));
    stop(child);
    // With `cuda_devices_min`, it is an error.
    let flags = [&flags[..], &["--cuda-devices-min", "1"]].concat();
    let output = capstand(&flags, &[FIRST_FAILS]).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    // A host without a GPU gets no warning.
    let flags = ["--cuda-driver", "/nonexistent/libcuda.so"];
    let (child, log, _) = ready(&mut capstand(&flags, &[]));
    assert!(!log.contains("WARN"), "{log}");
    stop(child);
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Used and left out GPUs, by the metrics.
fn counted(metrics: SocketAddr) -> (usize, usize) {
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let devices = |state: &str| {
        let name = format!(r#"capstan_devices{{state="{state}"}} "#);
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    (devices("used"), devices("left_out"))
}
