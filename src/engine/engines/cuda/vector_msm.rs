//! MSMs of vectors in device memory, over bases that a GPU has no memory for: part by part.

use super::msm::GpuMsm;
use crate::{
    curve::points::{Bases, MsmSums},
    device::{DeviceSlice, Stream},
    engines::{ComputedMsm, EncodedScalars, ExecutedBy, JobControl, MsmRun, add_stages},
    error::{Error, Result},
    ntt::DeviceFr,
};

/// An MSM that has been computed.
pub struct SummedParts {
    computed: Option<ComputedMsm>,
    has_right_bases: bool,
}

impl SummedParts {
    /// Sums each of `rows` over `bases`, of which `part_points` at a time are on the device.
    ///
    /// Errors: `Exhausted` if there is no memory for a part; those of `control`; `DeviceLost`.
    pub fn new(
        gpu_msm: &GpuMsm,
        bases: &Bases,
        rows: &[DeviceSlice<'_, DeviceFr>],
        part_points: usize,
        stream: &Stream,
        control: &JobControl,
    ) -> Result<Self> {
        let wrong_shape = || Error::Internal("a vector is not as long as its bases".to_owned());
        let mut all = None::<MsmSums>;
        let mut executor = ExecutedBy::default();
        let mut parts = 0;
        let mut has_right_bases = true;
        for start in (0..bases.len()).step_by(part_points) {
            let len = part_points.min(bases.len() - start);
            // Another object, so that the device need not hold the rest.
            let part = bases.slice(start, len).ok_or_else(wrong_shape)?.as_own_object();
            let mut of_rows = Vec::with_capacity(rows.len());
            for row in rows {
                let scalars = row.slice(start, len).ok_or_else(wrong_shape)?;
                let mut run = gpu_msm.launch_resident(part.clone(), 1, scalars, stream, control)?;
                while !run.is_almost_done(control)? {}
                let ComputedMsm { sums, executor: by } = run.finish()?;
                has_right_bases &= run.has_right_bases(control)?;
                of_rows.push(sums);
                add_stages(&mut executor.stages, &by.stages);
                (executor.engine, executor.device) = (by.engine, by.device);
            }
            let sums = MsmSums::concat(bases.group(), of_rows).ok_or_else(wrong_shape)?;
            all = Some(match all {
                None => sums,
                Some(before) => before.plus(&sums).ok_or_else(wrong_shape)?,
            });
            parts += 1;
        }
        executor.device.push_str(&format!(", the bases in {parts} parts"));
        let computed = ComputedMsm { sums: all.ok_or_else(wrong_shape)?, executor };
        Ok(Self { computed: Some(computed), has_right_bases })
    }
}

impl MsmRun for SummedParts {
    fn absorb(&mut self, _: usize, _: usize, _: &EncodedScalars<'_>, _: &JobControl) -> Result<()> {
        Err(Error::Internal("the MSM has all of its scalars".to_owned()))
    }

    fn has_right_bases(&mut self, _: &JobControl) -> Result<bool> {
        Ok(self.has_right_bases)
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        self.computed.take().ok_or_else(|| Error::Internal("the MSM was finished before".into()))
    }
}
