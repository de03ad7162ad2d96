//! Device state of an MSM in progress.

use std::sync::Arc;

use super::{pass_schedule::PassSchedule, too_many_scalars};
use crate::{
    curve::scalars::ScalarEncoding,
    device::{ALIGN, CopySession, DeviceFault, DeviceLease, DeviceSlice, Event, Stream},
    engine::{StageTime, add_stages, cuda::resident::ResidentBases},
    error::Result,
    msm::{BasesLocation, MsmPassPlan, StageEvents},
};

/// The plan, memory and pending work of an MSM.
pub struct MsmDeviceState {
    pub plan: MsmPassPlan,
    pub points: BasesLocation,
    pub passes: PassSchedule,
    /// Scalars uploaded and not yet decoded.
    pub undecoded: Vec<UndecodedScalars>,
    /// The end of the last decoding.
    pub decoded: Option<Event>,
    /// Number of passes launched.
    pub launched: u32,
    /// The ends of the last pass launched and of the one before.
    pub last_pass: Option<Event>,
    pub previous_pass: Option<Event>,
    pub marks: Vec<StageEvents>,
    /// The name of refused scalars, and the offset from indices in the MSM to theirs.
    pub name: (&'static str, u64),
    // Leases come first, since fields drop in order: a stream zeroes them after its work.
    /// The scalars, followed by the word that identifies the first refused one.
    pub scalars: DeviceLease,
    pub buckets: DeviceLease,
    pub out: DeviceLease,
    pub stream: Stream,
    pub _resident: Arc<ResidentBases>,
    /// Taken to wipe its chunks early.
    pub copies: Option<CopySession>,
}

/// Scalars of 32 bytes, uploaded but not yet decoded. The compute stream decodes them: a kernel
/// between two copies would wait for a multiprocessor, which the passes' kernels occupy for
/// milliseconds, and delay the second copy.
pub struct UndecodedScalars {
    pub first: usize,
    pub count: usize,
    pub encoding: ScalarEncoding,
    pub reduce: bool,
}

impl MsmDeviceState {
    pub fn scalars_at(&self, at: usize, count: usize) -> Result<DeviceSlice<'_, u8>> {
        let bytes = self.scalars.all::<u8>();
        let scalars = bytes.slice(0, bytes.len() - ALIGN as usize);
        scalars.and_then(|scalars| scalars.slice(32 * at, 32 * count)).ok_or_else(too_many_scalars)
    }

    /// Records uploaded scalars, merged with the last ones if adjacent.
    pub fn record_upload(&mut self, sent: UndecodedScalars) {
        let follows = |last: &&mut UndecodedScalars| {
            let alike = (last.encoding, last.reduce) == (sent.encoding, sent.reduce);
            alike && last.first + last.count == sent.first
        };
        match self.undecoded.last_mut().filter(follows) {
            Some(last) => last.count += sent.count,
            None => self.undecoded.push(sent),
        }
    }

    pub fn refused_word(&self) -> Result<DeviceSlice<'_, u64>> {
        let words = self.scalars.all::<u64>();
        words.slice(words.len() - ALIGN as usize / 8, 1).ok_or_else(too_many_scalars)
    }

    /// Durations of the stages, summed over all passes.
    pub fn stages(&self) -> Result<Vec<StageTime>, DeviceFault> {
        let mut all = Vec::new();
        for marks in &self.marks {
            add_stages(&mut all, &marks.stages()?);
        }
        Ok(all)
    }
}

impl Drop for MsmDeviceState {
    fn drop(&mut self) {
        if self.copies.is_some() {
            // The job failed or was cancelled: its copies must end before their chunks are wiped.
            let _waited = self.stream.synchronize();
        }
    }
}
