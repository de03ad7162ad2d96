//! Changes of the bases that a device holds.

use std::{sync::Arc, time::Instant};

use tracing::{Span, debug_span, field::Empty};

use super::{ComputeHost, JobWork};
use crate::{
    curve::points::Bases,
    engine::{DeviceResidency, JobControl, ResidencyChange},
    error::Result,
    tenant::DeviceTimeBudget,
};

/// A change on one device: one step, like the first MSM over bases, which uploads them, too.
pub struct ResidencyJob {
    pub host: Arc<ComputeHost>,
    pub bases: Bases,
    pub device: u32,
    pub change: ResidencyChange,
    /// Charged for the time of the change, also if it fails; `None` if the server makes it.
    pub device_time: Option<Arc<DeviceTimeBudget>>,
}

impl JobWork for ResidencyJob {
    type Output = DeviceResidency;

    fn span(&self, id: u64) -> Span {
        let op = "residency";
        let group = self.bases.group().name();
        let n = self.bases.len();
        let (device, change) = (self.device, self.change);
        debug_span!("job", id, op, group, n, device, ?change, queue_us = Empty, run_us = Empty)
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn step(&mut self, control: &JobControl) -> Result<Option<DeviceResidency>> {
        control.check()?;
        let begun = Instant::now();
        let executor = &self.host.executor;
        let held = executor.set_residency(self.device, &self.bases, self.change, control);
        self.device_time.iter().for_each(|budget| budget.charge(begun.elapsed()));
        Ok(held.map(Some)?)
    }
}
