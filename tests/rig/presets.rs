//! The limits of the devices that the emulated driver has presets for, so that plans for each can
//! be tested without opening it. `tests/emulated/presets.rs` compares them with what the driver
//! reports.
#![allow(dead_code)] // no test crate uses all of it

use capstan::device::DeviceLimits;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// The names of the presets in `EMU_DEVICE`, and their limits.
pub const PRESETS: [(&str, DeviceLimits); 8] = [
    ("a100", limits(108, [163, 164], [2048, 32], 40, 1410)),
    ("h100-pcie", limits(114, [227, 228], [2048, 32], 50, 1755)),
    ("h200", limits(132, [227, 228], [2048, 32], 60, 1980)),
    ("b200", without_bit_products(limits(148, [227, 228], [2048, 32], 126, 1965))),
    ("rtx4090", limits(128, [99, 100], [1536, 24], 72, 2520)),
    ("l4", limits(58, [99, 100], [1536, 24], 48, 2040)),
    ("rtx5090", without_bit_products(limits(170, [99, 100], [1536, 24], 96, 2407))),
    ("small", limits(4, [48, 64], [1536, 16], 2, 1500)),
];

/// KiB of shared memory per block and per multiprocessor; threads and blocks per multiprocessor;
/// MiB of L2; MHz.
const fn limits(
    multiprocessors: u32,
    [block_kib, shared_kib]: [u32; 2],
    [threads, blocks]: [u32; 2],
    l2_mib: u32,
    clock_mhz: u32,
) -> DeviceLimits {
    DeviceLimits {
        multiprocessors,
        block_shared_bytes: block_kib * KIB,
        shared_bytes: shared_kib * KIB,
        reserved_shared_bytes: KIB,
        resident_threads_max: threads,
        resident_blocks_max: blocks,
        l2_bytes: l2_mib * MIB,
        clock_khz: clock_mhz * 1000,
        has_bit_products: true,
        pins_read_only: true,
    }
}

/// As devices with compute capability 10.0 and later.
const fn without_bit_products(limits: DeviceLimits) -> DeviceLimits {
    DeviceLimits { has_bit_products: false, ..limits }
}
