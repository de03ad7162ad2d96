//! Device and pinned memory: sizes, bounds, alignment and lifetimes are enforced.

use cudarc::driver::result;

use crate::{
    arguments,
    rig::{DeviceWords, EmulatedGpu, MEMORY_MIB, SEEDS, error_code},
};

const FRESH: u32 = 0xeeee_eeee;

#[test]
fn new_memory_is_poisoned_at_any_size() {
    let gpu = EmulatedGpu::new(0);
    let stream = gpu.stream();
    // The last size is large enough to be mapped instead of filled.
    for count in [1, 1000, 10 << 20] {
        let words = gpu.words(count);
        assert!(words.read(&stream).unwrap().iter().all(|word| *word == FRESH));
        words.zero(&stream).unwrap();
        assert!(words.read(&stream).unwrap().iter().all(|word| *word == 0));
        words.free().unwrap();
        let again = gpu.words(count);
        assert!(again.read(&stream).unwrap().iter().all(|word| *word == FRESH));
        again.free().unwrap();
    }
}

#[test]
fn allocations_are_limited_to_the_memory_of_the_device() {
    let gpu = EmulatedGpu::new(0);
    let whole = MEMORY_MIB << 20;
    assert_eq!(gpu.context.mem_get_info().unwrap(), (whole, whole));
    let half = gpu.words(whole / 8);
    assert_eq!(gpu.context.mem_get_info().unwrap(), (whole / 2, whole));
    assert_eq!(error_code(&DeviceWords::new(whole / 8 + 1)), 2);
    let rest = gpu.words(whole / 8);
    assert_eq!(error_code(&DeviceWords::new(1)), 2);
    half.free().unwrap();
    rest.free().unwrap();
    assert_eq!(gpu.context.mem_get_info().unwrap(), (whole, whole));
    assert_eq!(error_code(&DeviceWords::new(0)), 1);
}

#[test]
fn queued_frees_make_memory_available() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let stream = gpu.stream();
        for _ in 0..8 {
            // SAFETY: freed once, in the order of the stream.
            unsafe {
                let large =
                    result::malloc_async(stream.cu_stream(), (MEMORY_MIB - 1) << 20).unwrap();
                result::memset_d8_async(large, 1, 100, stream.cu_stream()).unwrap();
                result::free_async(large, stream.cu_stream()).unwrap();
            }
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn copies_outside_allocations_are_refused() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words) = (gpu.stream(), gpu.words(16));
    for (offset, count) in [(0, 17), (4, 16), (64, 1), (u64::MAX - 3, 1)] {
        let outside = DeviceWords { address: words.address.wrapping_add(offset), count };
        assert_eq!(error_code(&outside.write(&stream, &vec![0; count])), 1, "{offset} {count}");
        assert_eq!(error_code(&outside.read(&stream)), 1, "{offset} {count}");
        assert_eq!(error_code(&outside.zero(&stream)), 1, "{offset} {count}");
    }
    let inside = DeviceWords { address: words.address + 60, count: 1 };
    inside.write(&stream, &[7]).unwrap();
    assert_eq!(inside.read(&stream).unwrap(), [7]);
}

#[test]
fn a_second_free_is_refused() {
    let gpu = EmulatedGpu::new(0);
    let stream = gpu.stream();
    let words = gpu.words(16);
    words.free().unwrap();
    assert_eq!(error_code(&words.free()), 1);
    assert_eq!(error_code(&DeviceWords { address: gpu.words(16).address + 4, count: 1 }.free()), 1);
    assert_eq!(error_code(&words.zero(&stream)), 1);
}

/// Queued work uses memory that is freed before the work runs.
#[test]
fn use_after_free_by_queued_work_is_detected() {
    for kernel in [false, true] {
        let gpu = EmulatedGpu::new(0);
        let (stream, words) = (gpu.stream(), gpu.words(16));
        if kernel {
            let scale = gpu.kernel("memory", "scale");
            scale.launch(&stream, (1, 16, 0), arguments![words.address, 16u32, 2u32]).unwrap();
        } else {
            words.zero(&stream).unwrap();
        }
        words.free().unwrap();
        assert_eq!(error_code(&stream.synchronize()), 700, "kernel: {kernel}");
    }
}

#[test]
fn stores_next_to_an_allocation_are_detected() {
    if std::env::var_os("LD_PRELOAD").is_some() {
        return; // the sanitizer ends the process at the store itself
    }
    for index in [-1i64, 16, 40] {
        let gpu = EmulatedGpu::new(0);
        let (stream, words) = (gpu.stream(), gpu.words(16));
        let store = gpu.kernel("memory", "store");
        store.launch(&stream, (1, 1, 0), arguments![words.address, index, 5u32]).unwrap();
        assert_eq!(error_code(&stream.synchronize()), 700, "{index}");
    }
}

/// Invalid pointers as kernel arguments, and the error that each causes.
#[test]
fn invalid_pointer_arguments_are_detected() {
    for (offset, want) in [(4, 0), (2, 716), (1 << 30, 700)] {
        let gpu = EmulatedGpu::new(0);
        let (stream, words) = (gpu.stream(), gpu.words(16));
        let at = words.address + offset;
        let scale = gpu.kernel("memory", "scale");
        scale.launch(&stream, (1, 16, 0), arguments![at, 2u32, 1u32]).unwrap();
        assert_eq!(error_code(&stream.synchronize()), want, "{offset}");
    }
}

#[test]
fn pinned_memory_freed_before_its_copy_is_detected() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words) = (gpu.stream(), gpu.words(16));
    // SAFETY: never written after it is freed; the driver detects the copy.
    unsafe {
        let host = result::malloc_host(64, 0).unwrap();
        let slice = std::slice::from_raw_parts(host.cast::<u32>(), 16);
        words.write(&stream, slice).unwrap();
        result::free_host(host).unwrap();
    }
    assert_eq!(error_code(&stream.synchronize()), 700);
}
