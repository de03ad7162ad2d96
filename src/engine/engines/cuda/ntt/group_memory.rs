//! Device memory and streams of an NTT job.

use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, JobStream},
    error::{Error, Result},
    ntt::DeviceFr,
};

/// Short rows are grouped up to this many bytes: on the link for 16 times the launches and waits
/// (`benches/experiments/host-device.md`), but few enough that a batch has many groups.
const GROUP_BYTES: usize = 8 << 20;

/// The rows of 2^lg_n elements per group, if a job has `rows` rows.
pub fn group_rows(lg_n: u32, rows: usize) -> usize {
    (GROUP_BYTES / (size_of::<DeviceFr>() << lg_n)).clamp(1, rows.max(1))
}

pub struct NttStreams {
    pub upload: JobStream,
    pub compute: JobStream,
    pub download: JobStream,
}

impl NttStreams {
    pub fn take(gpu: &Gpu) -> Result<Self, DeviceFault> {
        let [upload, compute, download] = [gpu.job_stream()?, gpu.job_stream()?, gpu.job_stream()?];
        Ok(Self { upload, compute, download })
    }
}

pub struct GroupBuffers {
    pub data: DeviceLease,
    /// A word that identifies the first refused element.
    pub refused_word: DeviceLease,
    /// Memory of the result, if the transform cannot be in place.
    pub out: Option<DeviceLease>,
}

impl GroupBuffers {
    pub fn data(&self, elements: usize) -> Result<DeviceSlice<'_, DeviceFr>> {
        self.data.all().slice(0, elements).ok_or_else(too_small)
    }

    pub fn out(&self, elements: usize) -> Result<Option<DeviceSlice<'_, DeviceFr>>> {
        let Some(out) = &self.out else { return Ok(None) };
        out.all().slice(0, elements).ok_or_else(too_small).map(Some)
    }
}

pub fn too_small() -> Error {
    Error::Internal("a group exceeds its memory".into())
}
