//! The modelled time of work on a GPU.

use std::time::Duration;

use crate::{
    device::Gpu,
    engine::{EngineWork, VectorWork},
    msm::ResidentMsms,
    ntt,
};

/// Copying an element of 32 bytes between host and device at 53.7 GB/s
/// (`benches/experiments/host-device.md`).
const TRANSFER_NS: f64 = 32.0 / 53.7;
/// The fixed cost of a copy: its launch, and the wait until the host sees its end.
const TRANSFER_LATENCY_NS: f64 = 10e3;

/// The time of work on operands in `gpu`'s memory. The bases of MSMs are there as well, with the
/// tables that bases get if they are used often.
pub fn on_device(gpu: &Gpu, work: &EngineWork) -> Duration {
    let limits = &gpu.identity().limits;
    match *work {
        EngineWork::Msm { group, n, vectors } => {
            ResidentMsms { group, n, vectors }.modelled_time(gpu.arena().bytes(), limits)
        }
        EngineWork::Ntt { lg_n, rows } => ntt::transform_time(lg_n, rows, limits),
        EngineWork::Vectors(VectorWork { products, bytes, is_scan }) => {
            ntt::vector_time(products, bytes, is_scan, limits)
        }
        EngineWork::Transfer { elements } => transfer(elements),
    }
}

/// The time of a copy between host and device.
pub fn transfer(elements: u64) -> Duration {
    Duration::from_nanos((elements as f64 * TRANSFER_NS + TRANSFER_LATENCY_NS) as u64)
}
