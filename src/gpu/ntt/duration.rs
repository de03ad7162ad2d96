//! The modelled time of transforms and vector operations on a GPU, fitted to an H200
//! (`benches/experiments/ntt.md`, `benches/experiments/vectors.md`).

use std::time::Duration;

use crate::device::DeviceLimits;

/// An element's share of a butterfly stage.
const STAGE_NS: f64 = 6.9e-3;
/// Launches and barriers, for each stage of a transform.
const STAGE_LATENCY_NS: f64 = 600.0;
const PRODUCT_NS: f64 = 12.5e-3;
/// Device memory at 4.4 TB/s.
const BYTE_NS: f64 = 1.0 / 4400.0;
const LAUNCH_NS: f64 = 4e3;
/// A scan's launches, and the upload of its constants.
const SCAN_NS: f64 = 28e3;

/// The modelled time of transforms of rows of 2^`lg_n` elements.
pub fn transform_time(lg_n: u32, rows: u32, limits: &DeviceLimits) -> Duration {
    let elements = f64::from(rows) * 2f64.powi(lg_n as i32);
    let stage =
        elements * STAGE_NS * limits.slower_throughput() + STAGE_LATENCY_NS * limits.slower_clock();
    Duration::from_nanos((f64::from(lg_n) * stage) as u64)
}

/// The modelled time of vector operations that compute `products` products, and read and write
/// `bytes` bytes. `is_scan` if results depend on all elements before them.
pub fn vector_time(products: u64, bytes: u64, is_scan: bool, limits: &DeviceLimits) -> Duration {
    // Memory and multiplier work at the same time.
    let work = (products as f64 * PRODUCT_NS).max(bytes as f64 * BYTE_NS);
    let latency = if is_scan { SCAN_NS } else { LAUNCH_NS };
    let ns = work * limits.slower_throughput() + latency * limits.slower_clock();
    Duration::from_nanos(ns as u64)
}
