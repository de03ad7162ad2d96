//! MSMs over bases that a GPU has no memory for: they are summed in parts, one after the other,
//! which are uploaded for each call, because the link is faster than the CPU. The bases of a part
//! count as a separate object, so that the whole one need not be resident.

use std::{collections::HashMap, ops::Range};

use super::msm::GpuMsm;
use crate::{
    buffer::{ByteSource, SourceSlices},
    curve::points::{Bases, MsmSums},
    engines::{ComputedMsm, EncodedScalars, ExecutedBy, JobControl, MsmRun, add_stages},
    error::{Error, Result},
    msm::SplitThresholds,
    program::InputSpec,
};

/// A part of one vector of an MSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PartKey {
    vector: usize,
    part: usize,
}

struct OpenPart {
    run: Box<dyn MsmRun>,
    /// Scalars that it has got.
    absorbed: usize,
}

/// An MSM in parts of the bases. Each part is an MSM that leaves the device when it has all of its
/// scalars, so scalars in ascending order need memory for one part.
pub struct MsmInParts {
    gpu_msm: GpuMsm,
    bases: Bases,
    part_points: usize,
    thresholds: SplitThresholds,
    open: HashMap<PartKey, OpenPart>,
    /// The sum of each vector, once one of its parts is done.
    sums: Vec<Option<MsmSums>>,
    executor: ExecutedBy,
    has_right_bases: bool,
}

impl MsmInParts {
    pub fn new(
        gpu_msm: GpuMsm,
        bases: Bases,
        batch: usize,
        part_points: usize,
        thresholds: SplitThresholds,
    ) -> Self {
        let open = HashMap::new();
        let executor = ExecutedBy::default();
        let has_right_bases = true;
        let sums = (0..batch).map(|_| None).collect();
        Self { gpu_msm, bases, part_points, thresholds, open, sums, executor, has_right_bases }
    }

    fn points_of(&self, part: usize) -> Range<usize> {
        let start = part * self.part_points;
        start..(start + self.part_points).min(self.bases.len())
    }

    fn begin(&self, part: usize) -> Result<OpenPart> {
        let points = self.points_of(part);
        let bases = self.bases.slice(points.start, points.len());
        let bases = bases.ok_or_else(|| Error::Internal("the MSM has no such part".into()))?;
        let run = self.gpu_msm.run(bases.as_own_object(), 1, self.thresholds);
        Ok(OpenPart { run, absorbed: 0 })
    }

    /// Adds the sum of a part that has all of its scalars.
    fn end(&mut self, vector: usize, mut part: OpenPart, control: &JobControl) -> Result<()> {
        let ComputedMsm { sums, executor } = part.run.finish()?;
        // Afterwards, its bases leave the device.
        self.has_right_bases &= part.run.has_right_bases(control)?;
        let sum = self.sums.get_mut(vector);
        let sum = sum.ok_or_else(|| Error::Internal("the MSM has no such vector".into()))?;
        let mismatch = || Error::Internal("the parts of a sum do not match".to_owned());
        *sum = Some(match sum.take() {
            None => sums,
            Some(before) => before.plus(&sums).ok_or_else(mismatch)?,
        });
        add_stages(&mut self.executor.stages, &executor.stages);
        self.executor.engine = executor.engine;
        self.executor.device = executor.device;
        Ok(())
    }
}

impl MsmRun for MsmInParts {
    fn absorb(
        &mut self,
        vector: usize,
        first: usize,
        scalars: &EncodedScalars<'_>,
        control: &JobControl,
    ) -> Result<()> {
        let mut at = first;
        while at < first + scalars.count() {
            let key = PartKey { vector, part: at / self.part_points };
            let points = self.points_of(key.part);
            let count = points.end.min(first + scalars.count()) - at;
            let mut part = match self.open.remove(&key) {
                Some(part) => part,
                None => self.begin(key.part)?,
            };
            let skipped = at - first;
            let source = ScalarsFrom {
                whole: scalars.source,
                start: (skipped * scalars.spec.encoding.width()) as u64,
            };
            let piece = EncodedScalars {
                spec: InputSpec { count: count as u64, ..scalars.spec },
                first: scalars.first + skipped as u64,
                source: &source,
            };
            part.run.absorb(0, at - points.start, &piece, control)?;
            part.absorbed += count;
            if part.absorbed == points.len() {
                self.end(vector, part, control)?;
            } else {
                self.open.insert(key, part);
            }
            at += count;
        }
        Ok(())
    }

    fn has_right_bases(&mut self, _: &JobControl) -> Result<bool> {
        Ok(self.has_right_bases)
    }

    fn finish(&mut self) -> Result<ComputedMsm> {
        if !self.open.is_empty() {
            return Err(Error::Internal("the MSM has not received all scalars".to_owned()));
        }
        let sums: Option<Vec<_>> = std::mem::take(&mut self.sums).into_iter().collect();
        let sums = sums.and_then(|sums| MsmSums::concat(self.bases.group(), sums));
        let missing = || Error::Internal("a vector of the MSM has no sum".to_owned());
        let sums = sums.ok_or_else(missing)?;
        let mut executor = std::mem::take(&mut self.executor);
        let parts = self.bases.len().div_ceil(self.part_points);
        executor.device.push_str(&format!(", the bases in {parts} parts"));
        Ok(ComputedMsm { sums, executor })
    }
}

/// The bytes of a source from `start` on.
struct ScalarsFrom<'a> {
    whole: &'a dyn ByteSource,
    start: u64,
}

impl ScalarsFrom<'_> {
    fn in_whole(&self, range: Range<u64>) -> Range<u64> {
        self.start + range.start..self.start + range.end
    }
}

impl ByteSource for ScalarsFrom<'_> {
    fn read(&self, start: u64, out: &mut [u8]) {
        self.whole.read(self.start + start, out);
    }

    fn is_intact(&self) -> bool {
        self.whole.is_intact()
    }

    fn device_source(&self, range: Range<u64>) -> Option<SourceSlices<'_>> {
        self.whole.device_source(self.in_whole(range))
    }

    fn has_received(&self, range: Range<u64>) -> bool {
        self.whole.has_received(self.in_whole(range))
    }
}
