//! Device memory and streams of an NTT job.

use parking_lot::Mutex;

use crate::{
    device::{DeviceFault, DeviceLease, DeviceSlice, Gpu, Stream},
    error::{Error, Result},
    ntt::DeviceFr,
};

/// Short rows are grouped up to this many bytes: 160 us of a 50 GB/s link, which outweigh launches
/// and waits (about 10 us), but few enough that a batch has many groups.
const GROUP_BYTES: usize = 8 << 20;

/// The rows of 2^lg_n elements per group, if a job has `rows` rows.
pub fn group_rows(lg_n: u32, rows: usize) -> usize {
    (GROUP_BYTES / (size_of::<DeviceFr>() << lg_n)).clamp(1, rows.max(1))
}

#[derive(Clone)]
pub struct NttStreams {
    pub upload: Stream,
    pub compute: Stream,
    pub download: Stream,
}

/// Streams between jobs. Tables keep track of the streams that used them, so fewer streams are
/// better.
#[derive(Default)]
pub struct IdleNttStreams(Mutex<Vec<NttStreams>>);

/// A job's streams, returned on drop.
pub struct NttStreamsGuard<'a> {
    idle: &'a IdleNttStreams,
    streams: NttStreams,
}

impl IdleNttStreams {
    pub fn take(&self, gpu: &Gpu) -> Result<NttStreamsGuard<'_>, DeviceFault> {
        let idle = self.0.lock().pop();
        let stream = || Stream::new(gpu.context());
        let streams = match idle {
            Some(streams) => streams,
            None => NttStreams { upload: stream()?, compute: stream()?, download: stream()? },
        };
        Ok(NttStreamsGuard { idle: self, streams })
    }
}

impl std::ops::Deref for NttStreamsGuard<'_> {
    type Target = NttStreams;

    fn deref(&self) -> &NttStreams {
        &self.streams
    }
}

impl Drop for NttStreamsGuard<'_> {
    fn drop(&mut self) {
        self.idle.0.lock().push(self.streams.clone());
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
