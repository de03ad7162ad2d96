//! Threads, barriers, warps and shared memory within a launch.

use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;

use crate::{
    arguments,
    rig::{EmulatedGpu, SEEDS, error_code},
};

/// The right result of `reverse`.
fn doubled(blocks: u32) -> Vec<u32> {
    (0..blocks).flat_map(|_| (0..256).map(|t| 2 * t)).collect()
}

fn reversed(seed: u64, barrier: u32) -> Vec<u32> {
    let gpu = EmulatedGpu::new(seed);
    let (stream, out) = (gpu.stream(), gpu.words(4 * 256));
    let kernel = gpu.kernel("threads", "reverse");
    kernel.launch(&stream, (4, 256, 0), arguments![out.address, barrier]).unwrap();
    out.read(&stream).unwrap()
}

#[test]
fn barriers_order_threads_under_every_seed() {
    for seed in SEEDS {
        assert_eq!(reversed(seed, 1), doubled(4), "seed {seed}");
    }
}

#[test]
fn a_missing_barrier_changes_results_under_some_seed() {
    let wrong: Vec<_> =
        [1, 2, 3].into_iter().filter(|seed| reversed(*seed, 0) != doubled(4)).collect();
    assert!(!wrong.is_empty());
}

#[test]
fn a_seed_repeats_its_schedule() {
    assert_eq!(reversed(5, 0), reversed(5, 0));
}

#[test]
fn divergence_fails_the_launch_and_sticks() {
    for how in 0..4u32 {
        for seed in SEEDS {
            let gpu = EmulatedGpu::new(seed);
            let (stream, out) = (gpu.stream(), gpu.words(64));
            let kernel = gpu.kernel("threads", "diverge");
            kernel.launch(&stream, (1, 64, 0), arguments![out.address, how]).unwrap();
            assert_eq!(error_code(&stream.synchronize()), 719, "way {how}, seed {seed}");
            assert_eq!(error_code(&gpu.context.synchronize()), 719, "way {how}, seed {seed}");
            assert_eq!(error_code(&out.read(&stream)), 719, "way {how}, seed {seed}");
        }
    }
}

#[test]
fn threads_that_returned_do_not_block_barriers() {
    let gpu = EmulatedGpu::new(1);
    let (stream, out) = (gpu.stream(), gpu.words(32));
    let how = 4u32;
    let kernel = gpu.kernel("threads", "diverge");
    kernel.launch(&stream, (1, 64, 0), arguments![out.address, how]).unwrap();
    assert_eq!(out.read(&stream).unwrap(), [1; 32]);
}

#[test]
fn shared_memory_is_poisoned_in_every_block() {
    let gpu = EmulatedGpu::new(0);
    let (stream, out) = (gpu.stream(), gpu.words(8 * 64));
    let kernel = gpu.kernel("threads", "read_poison");
    kernel.launch(&stream, (8, 64, 256), arguments![out.address]).unwrap();
    assert_eq!(out.read(&stream).unwrap(), [0xa5a5_a5a5; 8 * 64]);
}

#[test]
fn warps_shuffle_and_vote() {
    let words: Vec<u32> = (0..512u32).map(|i| i * i % 1009).collect();
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let stream = gpu.stream();
        let [input, sums, prefixes, votes] = [(); 4].map(|()| gpu.words(512));
        input.write(&stream, &words).unwrap();
        let kernel = gpu.kernel("threads", "warps");
        let given = arguments![input.address, sums.address, prefixes.address, votes.address];
        kernel.launch(&stream, (2, 256, 0), given).unwrap();
        let (sums, votes) = (sums.read(&stream).unwrap(), votes.read(&stream).unwrap());
        let prefixes = prefixes.read(&stream).unwrap();
        for (w, warp) in words.chunks(32).enumerate() {
            let sum: u32 = warp.iter().sum();
            assert_eq!(sums[32 * w..][..32], [sum; 32], "seed {seed}, warp {w}");
            let odd = (0..32).map(|lane| (warp[lane] & 1) << lane).sum::<u32>();
            assert_eq!(votes[32 * w..][..32], [odd; 32], "seed {seed}, warp {w}");
            let mut prefix = 0;
            for lane in 0..32 {
                prefix += warp[lane];
                assert_eq!(prefixes[32 * w + lane], prefix, "seed {seed}, warp {w}");
            }
        }
    }
}

#[test]
fn atomics_count_every_thread_of_every_block() {
    for seed in SEEDS {
        let gpu = EmulatedGpu::new(seed);
        let stream = gpu.stream();
        let [sum, sum64, most, bits] = [2, 2, 1, 1].map(|count| gpu.words(count));
        for words in [sum, sum64, most, bits] {
            words.zero(&stream).unwrap();
        }
        let kernel = gpu.kernel("threads", "atomics");
        let given = arguments![sum.address, sum64.address, most.address, bits.address];
        kernel.launch(&stream, (100, 128, 0), given).unwrap();
        let n = 12_800u32;
        assert_eq!(sum.read(&stream).unwrap(), [n * (n - 1) / 2, 2 * n]);
        assert_eq!(sum64.read(&stream).unwrap(), [n, 0]);
        assert_eq!(most.read(&stream).unwrap(), [n - 1]);
        assert_eq!(bits.read(&stream).unwrap(), [u32::MAX]);
    }
}

#[test]
fn asynchronous_copies_complete_when_waited_for() {
    let words: Vec<u32> = (0..128).collect();
    let mirrored: Vec<u32> = words.chunks(4).rev().flatten().copied().collect();
    let run = |seed, wait: u32| {
        let gpu = EmulatedGpu::new(seed);
        let stream = gpu.stream();
        let (input, out) = (gpu.words(128), gpu.words(128));
        input.write(&stream, &words).unwrap();
        let kernel = gpu.kernel("threads", "tiles");
        kernel.launch(&stream, (1, 32, 0), arguments![input.address, out.address, wait]).unwrap();
        out.read(&stream).unwrap()
    };
    for seed in SEEDS {
        assert_eq!(run(seed, 1), mirrored, "seed {seed}");
        assert_ne!(run(seed, 0), mirrored, "seed {seed}");
    }
}

#[test]
fn failed_assertions_end_the_launch() {
    let gpu = EmulatedGpu::new(0);
    let stream = gpu.stream();
    let kernel = gpu.kernel("threads", "assert_below");
    kernel.launch(&stream, (1, 32, 0), arguments![32u32]).unwrap();
    assert_eq!(error_code(&stream.synchronize()), 0);
    kernel.launch(&stream, (1, 32, 0), arguments![31u32]).unwrap();
    assert_eq!(error_code(&stream.synchronize()), 710);
}

/// Launches that exceed a limit, and their error codes.
#[test]
fn launches_beyond_the_limits_are_refused() {
    let gpu = EmulatedGpu::new(0);
    let (stream, out) = (gpu.stream(), gpu.words(1024));
    let kernel = gpu.kernel("threads", "read_poison");
    let shared = 48 << 10;
    for (shape, want) in [
        ((0, 64, 256), 1),
        ((1, 0, 256), 1),
        ((1, 65, 260), 1), // the launch bounds allow 64
        ((1, 1025, 0), 1),
        ((1 << 31, 64, 256), 1),
        ((1, 64, shared + 4), 1),
        ((1, 64, 256), 0),
    ] {
        let got = kernel.launch(&stream, shape, arguments![out.address]);
        assert_eq!(error_code(&got), want, "{shape:?}");
    }
    stream.synchronize().unwrap();
}

#[test]
fn opting_in_gives_more_shared_memory() {
    use cudarc::driver::result::function::{get_function_attribute, set_function_attribute};
    let gpu = EmulatedGpu::new(0);
    let (stream, out) = (gpu.stream(), gpu.words(64));
    let kernel = gpu.kernel("threads", "read_poison");
    let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is loaded.
    unsafe {
        assert_eq!(error_code(&set_function_attribute(kernel.0, dynamic, 228 << 10)), 1);
        set_function_attribute(kernel.0, dynamic, 200 << 10).unwrap();
        assert_eq!(get_function_attribute(kernel.0, dynamic).unwrap(), 200 << 10);
        let threads = Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        assert_eq!(get_function_attribute(kernel.0, threads).unwrap(), 64);
    }
    kernel.launch(&stream, (1, 64, 200 << 10), arguments![out.address]).unwrap();
    assert_eq!(out.read(&stream).unwrap(), [0xa5a5_a5a5; 64]);
}

#[test]
fn static_and_dynamic_shared_memory_count_together() {
    let gpu = EmulatedGpu::new(0);
    let (stream, out) = (gpu.stream(), gpu.words(64));
    let kernel = gpu.kernel("threads", "much_shared");
    kernel.launch(&stream, (1, 64, 8 << 10), arguments![out.address]).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(error_code(&kernel.launch(&stream, (1, 64, 10 << 10), arguments![out.address])), 1);
    stream.synchronize().unwrap();
}
