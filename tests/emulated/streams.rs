//! Streams run when the host waits, in an order that only streams and events constrain.

use std::{
    slice::from_raw_parts_mut,
    sync::{Arc, mpsc},
};

use cudarc::driver::{CudaStream, result, sys};

use crate::{
    arguments,
    rig::{DeviceWords, EmulatedGpu, SEEDS, error_code},
};

/// Pinned memory of `count` 32-bit words, freed with the process.
fn pinned(count: usize) -> &'static mut [u32] {
    // SAFETY: fresh memory of that size, filled with poison.
    unsafe { from_raw_parts_mut(result::malloc_host(4 * count, 0).unwrap().cast(), count) }
}

#[test]
fn a_staging_buffer_reused_too_early_changes_results() {
    let run = |seed, waits: bool| {
        let gpu = EmulatedGpu::new(seed);
        let (stream, staging) = (gpu.stream(), pinned(64));
        let parts = [(); 4].map(|()| gpu.words(64));
        for (i, part) in parts.iter().enumerate() {
            if waits {
                stream.synchronize().unwrap();
            }
            staging.fill(i as u32);
            part.write(&stream, staging).unwrap();
        }
        parts.map(|part| part.read(&stream).unwrap()[63])
    };
    for seed in SEEDS {
        assert_eq!(run(seed, true), [0, 1, 2, 3], "seed {seed}");
        assert_ne!(run(seed, false), [0, 1, 2, 3], "seed {seed}");
    }
}

#[test]
fn pinned_memory_overwritten_before_the_copy_changes_results() {
    let late = |seed| {
        let gpu = EmulatedGpu::new(seed);
        let (stream, staging) = (gpu.stream(), pinned(64));
        let parts = [(); 16].map(|()| gpu.words(64));
        for part in &parts {
            part.write(&stream, staging).unwrap();
        }
        staging.fill(9);
        parts.iter().any(|part| part.read(&stream).unwrap()[0] != 9)
    };
    assert!([1, 2, 3].into_iter().any(late));
}

#[test]
fn pageable_memory_is_read_at_the_call() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let (stream, words) = (gpu.stream(), gpu.words(4));
        let mut host = vec![1, 2, 3, 4];
        words.write(&stream, &host).unwrap();
        host.fill(0);
        assert_eq!(words.read(&stream).unwrap(), [1, 2, 3, 4]);
    }
}

#[test]
fn results_are_not_visible_before_a_wait() {
    let gpu = EmulatedGpu::new(0);
    let (stream, words, host) = (gpu.stream(), gpu.words(4), pinned(4));
    words.zero(&stream).unwrap();
    // SAFETY: the memory stays pinned and is read after the wait.
    unsafe { result::memcpy_dtoh_async(host, words.address, stream.cu_stream()) }.unwrap();
    assert_eq!(host, [0xeeee_eeee; 4]);
    stream.synchronize().unwrap();
    assert_eq!(host, [0; 4]);
}

/// A chain of `next` kernels that alternates between two streams, with or without events.
fn chain(seed: u64, events: bool) -> u32 {
    let gpu = EmulatedGpu::new(seed);
    let streams = [gpu.stream(), gpu.stream()];
    let next = gpu.kernel("memory", "next");
    let cells: Vec<DeviceWords> = (0..9).map(|_| gpu.words(1)).collect();
    cells[0].zero(&streams[0]).unwrap();
    for (i, pair) in cells.windows(2).enumerate() {
        let [this, other] = [&streams[i % 2], &streams[(i + 1) % 2]];
        next.launch(this, (1, 1, 0), arguments![pair[1].address, pair[0].address]).unwrap();
        if events {
            other.wait(&this.record_event(None).unwrap()).unwrap();
        }
    }
    gpu.context.synchronize().unwrap();
    cells[8].read(&streams[0]).unwrap()[0]
}

#[test]
fn events_order_streams() {
    for seed in SEEDS {
        assert_eq!(chain(seed, true), 8, "seed {seed}");
    }
}

#[test]
fn a_missing_event_changes_results_under_some_seed() {
    assert!([1, 2, 3].into_iter().any(|seed| chain(seed, false) != 8));
}

#[test]
fn waiting_for_one_stream_does_not_wait_for_others() {
    let lags_behind = |seed| {
        let gpu = EmulatedGpu::new(seed);
        let (first, second) = (gpu.stream(), gpu.stream());
        let (words, host) = (gpu.words(1), pinned(1));
        words.zero(&first).unwrap();
        // SAFETY: the memory stays pinned.
        unsafe { result::memcpy_dtoh_async(host, words.address, first.cu_stream()) }.unwrap();
        gpu.words(1).zero(&second).unwrap();
        second.synchronize().unwrap();
        let before = host[0];
        first.synchronize().unwrap();
        assert_eq!(host[0], 0);
        before != 0
    };
    assert!((1..9).any(lags_behind) && !(1..9).all(lags_behind));
}

#[test]
fn the_default_stream_and_blocking_streams_wait_for_each_other() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let default = gpu.context.default_stream();
        let blocking: Vec<_> = (0..2)
            .map(|_| result::stream::create(result::stream::StreamKind::Default).unwrap())
            .collect();
        let next = gpu.kernel("memory", "next");
        let cells: Vec<DeviceWords> = (0..5).map(|_| gpu.words(1)).collect();
        cells[0].zero(&default).unwrap();
        let order = [blocking[0], default.cu_stream(), blocking[1], default.cu_stream()];
        for (pair, stream) in cells.windows(2).zip(order) {
            // SAFETY: the kernel takes two pointers; the stream is live.
            let given = arguments![pair[1].address, pair[0].address];
            unsafe { result::launch_kernel(next.0, (1, 1, 1), (1, 1, 1), 0, stream, given) }
                .unwrap();
        }
        assert_eq!(cells[4].read(&default).unwrap(), [4], "seed {seed}");
    }
}

#[test]
fn events_report_completion_and_elapsed_time() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let (stream, words) = (gpu.stream(), gpu.words(1 << 16));
        let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let start = stream.record_event(timed).unwrap();
        words.zero(&stream).unwrap();
        let scale = gpu.kernel("memory", "scale");
        scale.launch(&stream, (64, 256, 0), arguments![words.address, 1u32 << 16, 3u32]).unwrap();
        let end = stream.record_event(timed).unwrap();
        if seed == 0 {
            assert_eq!(error_code(&elapsed_at_once(&start, &end)), 600);
        }
        // Polling alone makes progress.
        while !end.is_complete() {}
        assert!(start.elapsed_ms(&end).unwrap() > 0.0);
        let untimed = stream.record_event(None).unwrap();
        untimed.synchronize().unwrap();
        assert_eq!(error_code(&start.elapsed_ms(&untimed)), 400);
    }
}

/// Like `elapsed_ms`, but does not wait first.
fn elapsed_at_once(
    start: &cudarc::driver::CudaEvent,
    end: &cudarc::driver::CudaEvent,
) -> Result<f32, cudarc::driver::DriverError> {
    // SAFETY: both events are live.
    unsafe { result::event::elapsed(start.cu_event(), end.cu_event()) }
}

#[test]
fn host_functions_run_without_a_wait() {
    unsafe extern "C" fn send(sender: *mut std::ffi::c_void) {
        // SAFETY: the test boxed it and passes it once.
        let sender = unsafe { Box::from_raw(sender.cast::<mpsc::Sender<u32>>()) };
        sender.send(5).unwrap();
    }
    let gpu = EmulatedGpu::new(0);
    let (stream, (sender, receiver)) = (gpu.stream(), mpsc::channel::<u32>());
    gpu.words(1).zero(&stream).unwrap();
    let sender = Box::into_raw(Box::new(sender));
    // SAFETY: the function matches its argument.
    let queued = unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(send), sender.cast()) };
    queued.result().unwrap();
    assert_eq!(receiver.recv().unwrap(), 5);
}

#[test]
fn many_host_threads_share_a_device() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let scale = gpu.kernel("memory", "scale").0 as usize;
        let work = |stream: Arc<CudaStream>, factor: u32| {
            let context = gpu.context.clone();
            move || {
                context.bind_to_thread().unwrap();
                let words = DeviceWords::new(1000).unwrap();
                words.zero(&stream).unwrap();
                let scale = crate::rig::RawKernel(scale as sys::CUfunction);
                for _ in 0..20 {
                    let given = arguments![words.address, 1000u32, factor];
                    scale.launch(&stream, (2, 128, 0), given).unwrap();
                }
                words.read(&stream).unwrap()[999]
            }
        };
        let threads: Vec<_> =
            (1..5).map(|factor| std::thread::spawn(work(gpu.stream(), factor))).collect();
        for (thread, factor) in threads.into_iter().zip(1u32..) {
            let want = (0..20).fold(0u32, |x, _| x.wrapping_mul(factor).wrapping_add(999));
            assert_eq!(thread.join().unwrap(), want, "seed {seed}");
        }
    }
}
