//! Decodes and encodes scalars and elements of Fr on the device: `kernels/check/scalars.cu`.

use crate::{
    curve::scalars::ScalarEncoding,
    device::{
        BlockShape, DeviceFault, DevicePtr, DeviceSlice, Gpu, GpuUnavailable, Kernel, KernelModule,
        Stream,
    },
    ntt::DeviceFr,
};

/// Threads per block, `__launch_bounds__` of the kernels. Not tuned: the memory traffic of 64 bytes
/// an element takes a fortieth of the element's time on the link.
const THREADS: u32 = 128;

/// Flags of the kernel.
const REDUCE: u32 = 1;
const INTO_MONTGOMERY: u32 = 2;

/// from, to, first_bad, first_index, n, form, width, flags.
type DecodeKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u64>, u64, u32, u32, u32, u32)>;

pub struct ScalarCodec {
    decode: DecodeKernel,
    /// elements, n.
    encode: Kernel<(DevicePtr<DeviceFr>, u32)>,
    blocks_max: u32,
}

/// How elements are encoded, and how they are to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeRule {
    pub encoding: ScalarEncoding,
    /// Whether integers of r and above are reduced modulo r; else they are refused.
    pub reduce: bool,
    /// Whether to decode to Montgomery form, only for encodings of elements of Fr; else to
    /// canonical integers.
    pub into_montgomery: bool,
}

/// The word that receives the first refused element of all calls; initially zero. Read it with
/// [`first_refused`].
#[derive(Clone, Copy)]
pub struct RefusedWord<'a> {
    pub word: DeviceSlice<'a, u64>,
    /// The number of the call's first element.
    pub first: u64,
}

impl ScalarCodec {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = KernelModule::load(gpu.context(), "check/scalars")?;
        let shape = BlockShape::threads(THREADS);
        let decode: DecodeKernel = module.kernel("scalars_decode", shape).map_err(failed)?;
        let encode = module.kernel("scalars_encode", shape).map_err(failed)?;
        let resident = decode.resident_blocks().map_err(failed)?;
        Ok(Self { decode, encode, blocks_max: gpu.identity().limits.multiprocessors * resident })
    }

    /// Decodes all elements of `from` to `to`, which may be `from` if the encoding has 32 bytes.
    ///
    /// Shape: `to` has 32 bytes for each element.
    /// Errors: `KernelMismatch` if it has fewer; driver faults.
    pub fn decode(
        &self,
        stream: &Stream,
        rule: DecodeRule,
        from: DeviceSlice<'_, u8>,
        to: DeviceSlice<'_, u8>,
        refused: RefusedWord<'_>,
    ) -> Result<(), DeviceFault> {
        let form = match rule.encoding {
            ScalarEncoding::Canonical => 0,
            ScalarEncoding::Montgomery => 1,
            ScalarEncoding::Unsigned(_) => 2,
            ScalarEncoding::Signed(_) => 3,
            ScalarEncoding::Canonical31
            | ScalarEncoding::Montgomery31
            | ScalarEncoding::PackedBits64
            | ScalarEncoding::Limbs32 => {
                return Err(mismatch("not an encoding of Fr"));
            }
        };
        let width = rule.encoding.width();
        let count = count(from.len() / width, to.len())?;
        let into_montgomery = if rule.into_montgomery { INTO_MONTGOMERY } else { 0 };
        let flags = into_montgomery | if rule.reduce { REDUCE } else { 0 };
        let RefusedWord { word, first } = refused;
        let parameters = (from, to, word, first, count, form, width as u32, flags);
        self.decode.launch(stream, self.grid(count), parameters)
    }

    /// Converts elements from Montgomery form to canonical integers, in place.
    pub fn encode(
        &self,
        stream: &Stream,
        elements: DeviceSlice<'_, DeviceFr>,
    ) -> Result<(), DeviceFault> {
        let count = count(elements.len(), 32 * elements.len())?;
        self.encode.launch(stream, self.grid(count), (elements, count))
    }

    fn grid(&self, count: u32) -> u32 {
        count.div_ceil(THREADS).clamp(1, self.blocks_max)
    }
}

fn count(elements: usize, bytes: usize) -> Result<u32, DeviceFault> {
    let fits = u32::try_from(elements).ok().filter(|_| bytes >= 32 * elements);
    fits.ok_or_else(|| mismatch("output too small"))
}

fn mismatch(problem: &str) -> DeviceFault {
    DeviceFault::KernelMismatch { kernel: "scalars".into(), problem: problem.into() }
}

/// The first refused element, if the word reports one.
pub fn first_refused(word: u64) -> Option<u64> {
    (word != 0).then_some(!word)
}
