//! The modelled time of whole MSMs.

use std::time::Duration;

use super::{BaseMemory, MsmPass, MsmPassPlan, MsmSize, ResidentPlan};
use crate::{
    curve::Group,
    device::DeviceLimits,
    msm::{Recoding, launch::PerGroup, tables},
};

/// The most scalars of a vector in one MSM; longer vectors are modelled as several MSMs.
const SCALARS_MAX: u64 = 1 << 26;
/// The time of launches and of the steps between stages, whatever the windows, of an MSM of at most
/// 2^`LG_SMALL` scalars (`benches/experiments/msm.md`).
const LATENCY_NS: PerGroup<f64> = PerGroup { g1: 150e3, g2: 300e3 };
/// What this time grows by if the number of scalars doubles.
const SIZE_DOUBLING_NS: PerGroup<f64> = PerGroup { g1: 36e3, g2: 100e3 };
const LG_SMALL: f64 = 10.0;

impl MsmSize {
    /// The modelled time with these windows, if bases and scalars are on the device.
    pub fn modelled_time(&self, windows: &Recoding, limits: &DeviceLimits) -> Duration {
        let scalars = f64::from(self.n) * f64::from(self.vectors);
        let doublings = (scalars.max(1.0).log2() - LG_SMALL).max(0.0);
        let latency = LATENCY_NS.get(self.group) + doublings * SIZE_DOUBLING_NS.get(self.group);
        let ns = (self.model_ns(windows, limits) + latency) * limits.slower_clock();
        Duration::from_nanos(ns as u64)
    }
}

impl MsmPassPlan {
    /// The modelled time of one pass.
    pub fn modelled_pass_time(&self, pass: &MsmPass) -> Duration {
        let (n, vectors) = (pass.points.len() as u32, pass.vectors.len() as u32);
        let part = MsmSize { group: self.job().group, n, vectors };
        part.modelled_time(self.windows(), self.limits())
    }
}

/// MSMs over bases that have been used often.
#[derive(Debug, Clone, Copy)]
pub struct ResidentMsms {
    pub group: Group,
    /// The number of bases, and of scalars of each vector.
    pub n: u64,
    pub vectors: u32,
}

impl ResidentMsms {
    /// The modelled time if bases, their tables and the scalars are on a device with `bytes` of
    /// memory for bases and jobs.
    pub fn modelled_time(&self, bytes: u64, limits: &DeviceLimits) -> Duration {
        let &Self { group, n, vectors } = self;
        if n == 0 {
            return Duration::ZERO;
        }
        let parts = n.div_ceil(SCALARS_MAX);
        let n = n.div_ceil(parts) as u32;
        let table_scratch = tables::scratch_bytes(group, n, limits);
        let memory = BaseMemory { total: bytes, free: bytes, table_scratch };
        let bases = ResidentPlan { group, n, uses: u64::MAX, limits: *limits };
        let size = MsmSize { group, n, vectors };
        let windows = size.choose_windows_for_tables(bases.better(None, memory).as_ref(), limits);
        size.modelled_time(&windows, limits).mul_f64(parts as f64)
    }
}
