//! Uploads of objects that stay on a device.

use crate::{
    device::{DeviceSlice, Gpu, Stream},
    engines::JobControl,
    error::Result,
};

/// Bytes uploaded between two checks of `control`: a few milliseconds.
const CHECK_BYTES: usize = 64 << 20;

/// Copies `bytes` to the beginning of `to`, and waits for the copies.
///
/// Errors: those of `control`; `DeviceLost`.
pub fn upload(
    gpu: &Gpu,
    stream: &Stream,
    to: DeviceSlice<'_, u8>,
    bytes: &[u8],
    control: &JobControl,
) -> Result<()> {
    let mut upload = gpu.ring().upload(stream, to);
    for bytes in bytes.chunks(CHECK_BYTES) {
        control.check()?;
        upload.write(bytes)?;
    }
    Ok(())
}
