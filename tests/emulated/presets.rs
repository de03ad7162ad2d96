//! Presets of devices: their attributes and limits.

use std::process::{Command, Output};

use cudarc::driver::{CudaContext, sys};
use sys::CUfunction_attribute_enum as FunctionAttribute;

use crate::{
    arguments,
    limits::PRESETS,
    rig::{DeviceWords, EmulatedGpu, MEMORY_MIB, RawKernel, controls, error_code},
};

const KIB: i32 = 1 << 10;
const SHARED_MAX: FunctionAttribute =
    FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

/// An attribute of device 0. `number` is its value in `CUdevice_attribute`.
fn device_attribute(number: i32) -> i32 {
    let mut value = -1;
    // SAFETY: every attribute is an integer; the numbers are those of the driver's header.
    unsafe {
        let attribute = std::mem::transmute::<i32, sys::CUdevice_attribute>(number);
        sys::cuDeviceGetAttribute(&mut value, attribute, 0).result().unwrap();
    }
    value
}

fn function_attribute(kernel: RawKernel, attribute: FunctionAttribute) -> i32 {
    // SAFETY: the function is loaded.
    unsafe { cudarc::driver::result::function::get_function_attribute(kernel.0, attribute) }
        .unwrap()
}

/// Opts in to `bytes` of dynamic shared memory. Returns the driver's error code.
fn opt_in(kernel: RawKernel, bytes: i32) -> u32 {
    // SAFETY: the function is loaded.
    error_code(&unsafe {
        cudarc::driver::result::function::set_function_attribute(kernel.0, SHARED_MAX, bytes)
    })
}

/// Blocks of `threads` that fit on a multiprocessor, or the driver's error code.
fn occupancy(kernel: RawKernel, threads: i32, shared: usize) -> Result<i32, u32> {
    let mut blocks = -1;
    // SAFETY: the function is loaded.
    let answer = unsafe {
        sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, kernel.0, threads, shared)
    };
    answer.result().map(|()| blocks).map_err(|error| error.0 as u32)
}

#[test]
fn presets_have_the_attributes_of_their_devices() {
    let capabilities = [(8, 0), (9, 0), (9, 0), (10, 0), (8, 9), (8, 9), (12, 0), (8, 6)];
    for ((name, limits), (major, minor)) in PRESETS.into_iter().zip(capabilities) {
        let gpu = EmulatedGpu::of(name, 0);
        assert!(gpu.context.name().unwrap().starts_with("emulated "), "{name}");
        assert_ne!(gpu.context.name().unwrap(), "emulated device 0", "{name}");
        for (number, want) in [
            (75, major),
            (76, minor),
            (97, limits.block_shared_bytes as i32),
            (81, limits.shared_bytes as i32),
            (8, 48 * KIB),
            (111, limits.reserved_shared_bytes as i32),
            (16, limits.multiprocessors as i32),
            (39, limits.resident_threads_max as i32),
            (106, limits.resident_blocks_max as i32),
            (38, limits.l2_bytes as i32),
            (13, limits.clock_khz as i32),
            (12, 65536),
            (82, 65536),
            (10, 32),
        ] {
            assert_eq!(device_attribute(number), want, "{name}: attribute {number}");
        }
        // `EMU_MEMORY_MIB` limits the memory of a preset.
        assert_eq!(gpu.context.total_mem().unwrap(), MEMORY_MIB << 20);
    }
}

#[test]
fn the_last_preset_repeats() {
    let gpu = EmulatedGpu::of("h200,l4", 0);
    let capability = |i| CudaContext::new(i).unwrap().compute_capability().unwrap();
    assert_eq!([0, 1, 2].map(capability), [(9, 0), (8, 9), (8, 9)]);
    assert!(!gpu.knows("h200,h300"));
    assert!(gpu.knows(""));
    gpu.context.bind_to_thread().unwrap();
    assert_eq!(device_attribute(16), 4);
}

/// Compares with the numbers that a real H200 reported for these kernels.
#[test]
fn limits_and_occupancy_match_a_real_h200() {
    let gpu = EmulatedGpu::of("h200", 0);
    let (stream, out) = (gpu.stream(), gpu.words(1024));
    let bounded = gpu.kernel("devices", "bounded");
    let unbounded = gpu.kernel("devices", "unbounded");
    let most = 227 * KIB;
    let launch = |kernel: RawKernel, block, shared: i32| {
        error_code(&kernel.launch(&stream, (1, block, shared as u32), arguments![out.address]))
    };
    let static_bytes = FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    let threads = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    assert_eq!(function_attribute(bounded, static_bytes), 1000);
    assert_eq!(function_attribute(bounded, threads), 128);
    assert_eq!(function_attribute(bounded, SHARED_MAX), 48 * KIB - 1000);
    assert_eq!([128, 129, 1025].map(|block| launch(bounded, block, 0)), [0, 1, 1]);
    assert_eq!([48 * KIB - 1000, 48 * KIB].map(|shared| launch(bounded, 1, shared)), [0, 1]);
    assert_eq!([48 * KIB, 48 * KIB + 1].map(|shared| launch(unbounded, 1, shared)), [0, 1]);

    assert_eq!([most, most - 999, most - 1000].map(|bytes| opt_in(bounded, bytes)), [1, 1, 0]);
    assert_eq!([most, most - 1000].map(|shared| launch(bounded, 1, shared)), [1, 0]);
    // Opting in to less lowers the limit.
    assert_eq!([-1, most + 1, 1000].map(|bytes| opt_in(unbounded, bytes)), [1, 1, 0]);
    assert_eq!([1001, 1000].map(|shared| launch(unbounded, 250, shared)), [1, 0]);
    stream.synchronize().unwrap();

    assert_eq!(opt_in(unbounded, most), 0);
    for (block, shared, want) in [
        (128, 0, Ok(16)),
        (128, 40_000, Ok(5)),
        (128, most, Ok(0)),
        (0, 0, Err(1)),
        (1025, 0, Ok(0)),
    ] {
        assert_eq!(occupancy(bounded, block, shared as usize), want, "{block} threads, {shared} B");
    }
    for (block, shared, want) in [
        (1, 0, 32),
        (33, 0, 32),
        (1024, 0, 2),
        (1024, 113 * KIB, 2),
        (32, most, 1),
        (32, most + 1, 0),
        (1025, 0, 0),
    ] {
        assert_eq!(occupancy(unbounded, block, shared as usize), Ok(want), "{block}, {shared} B");
    }
}

#[test]
fn smaller_devices_hold_fewer_and_smaller_blocks() {
    for (name, most, bounded_blocks, large_blocks) in
        [("rtx4090", 99, 12, 3), ("small", 48, 12, 3), ("a100", 163, 16, 3)]
    {
        let gpu = EmulatedGpu::of(name, 0);
        let (stream, out) = (gpu.stream(), gpu.words(1024));
        let [bounded, unbounded, large] =
            ["bounded", "unbounded", "large"].map(|kernel| gpu.kernel("devices", kernel));
        assert_eq!(occupancy(bounded, 128, 0), Ok(bounded_blocks), "{name}");
        assert_eq!(occupancy(large, 128, 0), Ok(large_blocks), "{name}");
        assert_eq!(opt_in(unbounded, most * KIB + 1), 1, "{name}");
        assert_eq!(opt_in(unbounded, most * KIB), 0, "{name}");
        assert_eq!(occupancy(unbounded, 128, (most * KIB) as usize), Ok(1), "{name}");
        let shape = (1, 1024, (most * KIB) as u32);
        unbounded.launch(&stream, shape, arguments![out.address]).unwrap();
        assert_eq!(out.read(&stream).unwrap(), (0..1024).collect::<Vec<u32>>(), "{name}");
    }
}

#[test]
fn register_counts_follow_from_launch_bounds() {
    let registers = FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
    let version = FunctionAttribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION;
    // A multiprocessor with 1536 threads holds one block of 1024, not two.
    for (name, want, sm) in [("h200", [32, 32, 168], 90), ("rtx5090", [40, 64, 168], 120)] {
        let gpu = EmulatedGpu::of(name, 0);
        let kernels = ["bounded", "unbounded", "large"].map(|kernel| gpu.kernel("devices", kernel));
        assert_eq!(kernels.map(|kernel| function_attribute(kernel, registers)), want, "{name}");
        assert_eq!(function_attribute(kernels[0], version), sm, "{name}");
    }
}

#[test]
fn shared_memory_of_called_functions_is_known_after_a_run() {
    let gpu = EmulatedGpu::new(0);
    let (stream, out) = (gpu.stream(), gpu.words(32));
    let helping = gpu.kernel("devices", "helping");
    helping.launch(&stream, (1, 32, 0), arguments![out.address]).unwrap();
    stream.synchronize().unwrap();
    let static_bytes = FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    assert_eq!(function_attribute(helping, static_bytes), 128);
}

/// Launches with programmatic stream serialization need capability 9.0, and all threads must wait.
#[test]
fn programmatic_launches_need_capability_9_and_must_wait() {
    for (name, wait, want) in [
        ("h200", 1_u32, (0, 0)),
        ("h200", 0, (0, 710)),
        ("b200", 1, (0, 0)),
        ("rtx5090", 1, (0, 0)),
        ("a100", 1, (801, 0)),
        ("rtx4090", 1, (801, 0)),
    ] {
        let gpu = EmulatedGpu::of(name, 0);
        let (stream, out) = (gpu.stream(), gpu.words(32));
        let follow = gpu.kernel("devices", "follow");
        let launched = follow.launch_early(&stream, (1, 32, 0), arguments![out.address, wait]);
        assert_eq!(
            (error_code(&launched), error_code(&stream.synchronize())),
            want,
            "{name}, wait {wait}"
        );
    }
}

/// Runs [`child_uses_the_devices_of_its_environment`] in a new process with these variables.
fn with_settings(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child = "presets::child_uses_the_devices_of_its_environment";
    command.args(["--exact", child, "--nocapture", "--test-threads=1"]);
    command.env_remove("EMU_DEVICES").env_remove("EMU_TRACE_EARLY").env("EMU_MEMORY_MIB", "64");
    command.envs(variables.iter().copied()).output().unwrap()
}

/// If the environment names devices, prints them, and launches kernels early if `EMU_TRACE_EARLY`
/// is set. Does nothing in other processes.
#[test]
fn child_uses_the_devices_of_its_environment() {
    if std::env::var_os("EMU_DEVICE").is_none() {
        return;
    }
    let _loaded = controls();
    for i in 0..CudaContext::device_count().unwrap() {
        let context = CudaContext::new(i as usize).unwrap();
        let (name, mib) = (context.name().unwrap(), context.total_mem().unwrap() >> 20);
        println!("<{name}, {} multiprocessors, {mib} MiB>", device_attribute(16));
    }
    if std::env::var_os("EMU_TRACE_EARLY").is_some() {
        let context = CudaContext::new(0).unwrap();
        let (stream, out) = (context.new_stream().unwrap(), DeviceWords::new(128).unwrap());
        let kernel = |name| RawKernel(crate::rig::kernel("devices", name).unwrap());
        for _ in 0..2 {
            let given = arguments![out.address, 1_u32];
            kernel("follow").launch_early(&stream, (1, 32, 0), given).unwrap();
            kernel("bounded").launch(&stream, (1, 32, 0), arguments![out.address]).unwrap();
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn devices_follow_the_environment() {
    let listed = |variables: &[(&str, &str)]| {
        let output = with_settings(variables);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.contains('<')).map(str::to_owned).collect::<Vec<_>>()
    };
    let two = listed(&[("EMU_DEVICE", "small,h200"), ("EMU_MULTIPROCESSORS", "3")]);
    assert_eq!(two.len(), 2, "{two:?}");
    assert!(two[0].ends_with("<emulated small, 3 multiprocessors, 64 MiB>"), "{two:?}");
    assert!(two[1].ends_with("<emulated NVIDIA H200, 3 multiprocessors, 64 MiB>"), "{two:?}");
    let large = [("EMU_DEVICE", "small"), ("EMU_DEVICES", "3"), ("EMU_MEMORY_MIB", "8192")];
    let three = listed(&large);
    assert_eq!(three.len(), 3, "{three:?}");
    assert!(three.iter().all(|line| line.ends_with("4 multiprocessors, 4096 MiB>")), "{three:?}");
}

#[test]
fn early_launches_are_traced_once_per_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traced-early");
    for lines in ["follow\n", "follow\nfollow\n"] {
        let file = path.to_str().unwrap();
        let output = with_settings(&[("EMU_DEVICE", "h200"), ("EMU_TRACE_EARLY", file)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines);
    }
}

#[test]
fn invalid_settings_fail_initialization_with_a_reason() {
    for (variables, why) in [
        (
            [("EMU_DEVICE", "h300"), ("EMU_MULTIPROCESSORS", "4")],
            "unknown device \"h300\" in EMU_DEVICE; known devices: a100 h100-pcie h200 b200 \
             rtx4090 l4 rtx5090 small",
        ),
        ([("EMU_DEVICE", "h200"), ("EMU_MULTIPROCESSORS", "0")], "not a number from 1"),
    ] {
        let output = with_settings(&variables);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(why), "{text}");
        assert!(text.contains("CUDA_ERROR_NOT_INITIALIZED"), "{text}");
    }
}
