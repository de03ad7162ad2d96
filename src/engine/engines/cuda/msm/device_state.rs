//! Device state of an MSM in progress.

use std::sync::Arc;

use super::pass_schedule::PassSchedule;
use crate::{
    device::{CopySession, DeviceFault, DeviceLease, DeviceSlice, Event, JobStream},
    engines::{
        StageTime, add_stages,
        cuda::{
            long_work::LongWait,
            resident_bases::ResidentBases,
            scalar_codec::{DecodeRule, RefusedWord},
            workspace::PassStreamId,
        },
    },
    error::{Error, Result},
    msm::{BasesLocation, MsmPassPlan, MsmStageTimes, StageEvents},
};

pub struct MsmDeviceState {
    pub plan: MsmPassPlan,
    pub points: BasesLocation,
    pub passes: PassSchedule,
    pub undecoded: Vec<UndecodedScalars>,
    pub launched: u32,
    /// The ends of the last pass launched and of the one before.
    pub last_pass: Option<Event>,
    pub previous_pass: Option<Event>,
    pub wait: LongWait,
    pub stage_events: Vec<StageEvents>,
    /// The number of the MSM's first scalar in its input, for errors.
    pub first_element: u64,
    // Leases come first, since fields drop in order: a stream zeroes them after its work.
    pub scalars: Arc<ScalarMemory>,
    pub buckets: DeviceLease,
    pub results: SumMemory,
    pub stream: JobStream,
    pub resident: Arc<ResidentBases>,
    /// Names the stream of the passes, and their workspace.
    pub pass_stream: PassStreamId,
    /// Taken to wipe its chunks early.
    pub session: Option<Arc<CopySession>>,
}

/// The memory of all scalars.
pub struct ScalarMemory(pub DeviceLease);

/// What the host reads in the end: the sums of the passes, then the word that identifies the first
/// refused scalar.
pub struct SumMemory(pub DeviceLease);

/// Scalars of 32 bytes, uploaded but not yet decoded. The stream of the passes decodes them: a
/// kernel between two copies would wait for a multiprocessor, which the passes' kernels occupy for
/// milliseconds, and delay the second copy.
pub struct UndecodedScalars {
    pub first: usize,
    pub count: usize,
    pub rule: DecodeRule,
}

impl MsmDeviceState {
    /// Records uploaded scalars, together with the last ones if adjacent.
    pub fn record_upload(&mut self, uploaded: UndecodedScalars) {
        let follows = |last: &&mut UndecodedScalars| {
            last.rule == uploaded.rule && last.first + last.count == uploaded.first
        };
        match self.undecoded.last_mut().filter(follows) {
            Some(last) => last.count += uploaded.count,
            None => self.undecoded.push(uploaded),
        }
    }

    /// Sums over all passes.
    pub fn stages(&self) -> Result<Vec<StageTime>, DeviceFault> {
        let mut all = Vec::new();
        for events in &self.stage_events {
            let MsmStageTimes { sort, accumulate, reduce } = events.times()?;
            let stage = |name, duration| StageTime { name, duration };
            let of_pass =
                [stage("sort", sort), stage("accumulate", accumulate), stage("reduce", reduce)];
            add_stages(&mut all, &of_pass);
        }
        Ok(all)
    }
}

impl ScalarMemory {
    /// The 32 bytes of each of `count` scalars, numbered across all vectors, from `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Result<DeviceSlice<'_, u8>> {
        self.0.all().slice(32 * first, 32 * count).ok_or_else(too_many_scalars)
    }
}

impl SumMemory {
    /// The bytes of a lease for the sums of `plan`.
    pub fn bytes(plan: &MsmPassPlan) -> u64 {
        plan.output_bytes().next_multiple_of(8) + 8
    }

    /// The word for the first refused scalar, for a call whose first scalar is number `first`.
    pub fn refused_word(&self, first: usize) -> Result<RefusedWord<'_>> {
        let words = self.0.all::<u64>();
        let word = words.slice(words.len() - 1, 1).ok_or_else(too_many_scalars)?;
        Ok(RefusedWord { word, first: first as u64 })
    }
}

impl Drop for MsmDeviceState {
    fn drop(&mut self) {
        if self.session.is_some() {
            // The job failed or was cancelled: its copies must end before their chunks are wiped.
            let _waited = self.stream.synchronize();
        }
    }
}

pub fn too_many_scalars() -> Error {
    Error::Internal("the MSM received more scalars than it has bases".to_owned())
}
