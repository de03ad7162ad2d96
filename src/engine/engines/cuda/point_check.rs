//! Checks points from outside on the GPUs: `kernels/check/points.cu`.

use crate::{
    curve::{
        Group, layout,
        points::{BadElement, CurvePoint, PointEncoding},
    },
    device::{
        ALIGN, BlockShape, DeviceFault, DevicePtr, Gpu, GpuUnavailable, Kernel, KernelModule,
    },
    error::{Error, FieldProblem, Result},
};

/// The host checks fewer points sooner: a GPU thread takes a millisecond for one
/// (`benches/experiments/gpu-arithmetic.md`).
const COUNT_MIN: usize = 4096;

/// Points per call: enough to fill a large GPU a few times over, some megabytes.
const PIECE_POINTS: usize = 1 << 16;

/// Threads per block, as in `__launch_bounds__` of the kernels.
const THREADS_G1: u32 = 128;
const THREADS_G2: u32 = 64;

/// points, first_bad, first_index, n, form.
type CheckPointsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u64>, u64, u32, u32)>;

pub struct DevicePointChecker {
    gpu: Gpu,
    g1: CheckPointsKernel,
    g2: CheckPointsKernel,
}

/// See [`PointChecker::piece_len`](crate::engines::PointChecker::piece_len).
pub fn piece_len(encoding: PointEncoding, count: usize) -> Option<usize> {
    // Compressed points need a square root each, which no kernel computes yet.
    (encoding != PointEncoding::Compressed && count >= COUNT_MIN).then_some(PIECE_POINTS)
}

impl DevicePointChecker {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        let module = KernelModule::load(gpu.context(), "check/points")?;
        let kernel =
            |name, threads| module.kernel(name, BlockShape::threads(threads)).map_err(failed);
        let g1 = kernel("g1_check_points", THREADS_G1)?;
        let g2 = kernel("g2_check_points", THREADS_G2)?;
        Ok(Self { gpu: gpu.clone(), g1, g2 })
    }

    pub fn check<A: CurvePoint>(
        &self,
        encoding: PointEncoding,
        bytes: &[u8],
        out: &mut [A],
    ) -> Result<Result<(), BadElement>> {
        let gpu = &self.gpu;
        let (kernel, threads) = match A::GROUP {
            Group::G1 => (&self.g1, THREADS_G1),
            Group::G2 => (&self.g2, THREADS_G2),
        };
        let form = u32::from(encoding != PointEncoding::Montgomery);
        let stream = gpu.job_stream()?;
        let lease = gpu.arena().lease(&stream, ALIGN + bytes.len() as u64)?;
        let all = lease.all::<u8>();
        // The word for the first bad point, then the points, each aligned for vector loads.
        let word = all.slice(0, size_of::<u64>()).expect("ALIGN bytes were leased");
        let points = all.slice(ALIGN as usize, bytes.len()).expect("the bytes were leased");
        let mut upload = gpu.ring().upload(&stream, all);
        upload.write(&u64::MAX.to_le_bytes())?;
        upload.skip(ALIGN as usize - word.len());
        upload.write(bytes)?;
        let count =
            u32::try_from(out.len()).map_err(|_| Error::Internal("too many points".into()))?;
        let first_bad = word.cast().expect("a whole word");
        kernel.launch(&stream, count.div_ceil(threads), (points, first_bad, 0, count, form))?;
        let mut found = Vec::with_capacity(word.len());
        gpu.ring().download(&stream, word, |bytes| {
            found.extend_from_slice(bytes);
            Ok::<_, DeviceFault>(())
        })?;
        let found = found.try_into().map(u64::from_le_bytes).unwrap_or_default();
        if found == u64::MAX {
            let mut rest = layout::points_as_bytes_mut(out);
            if encoding == PointEncoding::Montgomery {
                rest.copy_from_slice(bytes);
            } else {
                gpu.ring().download(&stream, points, |bytes| {
                    let (now, later) = std::mem::take(&mut rest).split_at_mut(bytes.len());
                    now.copy_from_slice(bytes);
                    rest = later;
                    Ok::<_, DeviceFault>(())
                })?;
            }
        }
        if found == u64::MAX { Ok(Ok(())) } else { Ok(Err(decode_problem(found)?)) }
    }
}

/// Decodes the kernel's word: index in the upper bits, problem in the lower eight.
fn decode_problem(found: u64) -> Result<BadElement> {
    let problem = match found & 0xff {
        1 => FieldProblem::NotCanonical,
        2 => FieldProblem::NotOnCurve,
        3 => FieldProblem::NotInSubgroup,
        4 => FieldProblem::BadInfinity,
        5 => FieldProblem::BadEncoding,
        other => {
            return Err(Error::Internal(format!("unknown result of the point check: {other}")));
        }
    };
    Ok(BadElement { index: found >> 8, problem })
}
