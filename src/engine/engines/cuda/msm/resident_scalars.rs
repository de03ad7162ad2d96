//! MSMs of scalars that are in device memory already.

use std::time::Instant;

use super::{GpuMsm, GpuMsmRun, too_many_scalars};
use crate::{
    buffer::RangeSet,
    curve::{points::Bases, scalars::ScalarEncoding},
    device::{DeviceSlice, Stream},
    engines::{JobControl, MsmRun, cuda::scalar_codec::DecodeRule},
    error::Result,
    ntt::DeviceFr,
};

impl GpuMsm {
    /// Launches an MSM of `batch` vectors in device memory, after all earlier work on `stream`.
    /// Returns when the work is under way, or the first part of it if `control` yields;
    /// [`MsmRun::is_almost_done`] launches the rest, and [`MsmRun::finish`] waits for all.
    ///
    /// Shape: `scalars` are canonical elements in Montgomery form, vector after vector, each as
    /// long as `bases`, which has at least one point.
    /// Errors: `Exhausted` if there is no memory; those of `control`; `DeviceLost`; `Internal` if
    /// the shape is wrong.
    pub fn launch_resident(
        &self,
        bases: Bases,
        batch: usize,
        scalars: DeviceSlice<'_, DeviceFr>,
        stream: &Stream,
        control: &JobControl,
    ) -> Result<Box<dyn MsmRun>> {
        let count = bases.len() * batch;
        if scalars.len() != count {
            return Err(too_many_scalars());
        }
        let gpu_msm = self.0.clone();
        let mut run = GpuMsmRun {
            gpu_msm: gpu_msm.clone(),
            bases,
            batch,
            thresholds: gpu_msm.policy.split,
            device_state: None,
            received: RangeSet::default(),
            begun: Instant::now(),
        };
        let control = control.behind(&gpu_msm.policy.cancellation_gate);
        let state = run.prepare(&control)?;
        let encoding = ScalarEncoding::Montgomery;
        let rule = DecodeRule { encoding, reduce: false, into_montgomery: false };
        let from = scalars.cast().ok_or_else(too_many_scalars)?;
        let to = state.scalars.slice(0, count)?;
        let refused = state.results.refused_word(0)?;
        // On `stream`, whose later work may overwrite `scalars`.
        gpu_msm.codec.decode(stream, rule, from, to, refused)?;
        let pass_stream = gpu_msm.pass_streams.get(state.pass_stream);
        pass_stream.stream.wait_event(&stream.record()?)?;
        run.received.insert(0..count as u64);
        run.launch_due_passes(control.yields())?;
        Ok(Box::new(run))
    }
}
