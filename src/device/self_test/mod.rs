//! The power-on self-test: compares operations on the device with arkworks and plain integers on
//! the host. A device that fails it is not used.

mod curve;
mod field;
mod words;

use std::time::Instant;

use ark_bls12_381::{Fq, Fq2, Fr, g1, g2};
use ark_ff::Field;
use bytemuck::Pod;

use super::{DeviceFault, DeviceLease, Gpu, GpuUnavailable, KernelModule, Stream};

/// Elements per operation: two warps, so that divergence within a warp is covered.
const COUNT: usize = 64;

/// Tests `gpu` and returns a summary.
///
/// Errors: `Device` with `WrongResult` if a result differs from the host's; `NoKernels`,
/// `NoImageForDevice`.
pub(super) fn run(gpu: &Gpu) -> Result<String, GpuUnavailable> {
    let begun = Instant::now();
    let index = gpu.identity().index;
    let field = KernelModule::load(gpu.context(), "selftest")?;
    let curve = KernelModule::load(gpu.context(), "selftest_curve")?;
    let test = || {
        let bench = SelfTestBench { gpu, stream: Stream::new(gpu.context())? };
        words::test(&bench, &field)?;
        let (sum, difference) = (field::sum_of_products(), field::difference_of_products());
        field::test(&bench, &field, "selftest_fr", Fr::from, &[])?;
        field::test(&bench, &field, "selftest_fp", Fq::from, &[sum, difference])?;
        field::test(&bench, &field, "selftest_fp2", fq2, &[field::difference_of_products()])?;
        curve::test::<g1::Config>(&bench, &curve, Fq::from)?;
        curve::test::<g2::Config>(&bench, &curve, fq2)
    };
    let done = test().map_err(|fault| gpu.context().report(fault));
    done.map_err(|fault| GpuUnavailable::Device { index, fault })?;
    Ok(format!("passed in {} ms", begun.elapsed().as_millis()))
}

/// An element with two generic coordinates.
fn fq2(seed: u64) -> Fq2 {
    Fq2::new(Fq::from(seed), Fq::from(seed).square() + Fq::ONE)
}

/// One device and a stream on it.
struct SelfTestBench<'a> {
    gpu: &'a Gpu,
    stream: Stream,
}

impl SelfTestBench<'_> {
    /// Uploads `values` to a new lease.
    fn upload<T: Pod>(&self, values: &[T]) -> Result<DeviceLease, DeviceFault> {
        let bytes = bytemuck::cast_slice(values);
        let lease = self.gpu.arena().lease(&self.stream, bytes.len() as u64)?;
        self.gpu.ring().upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
    }

    /// A lease of `bytes` bytes for results.
    fn lease(&self, bytes: usize) -> Result<DeviceLease, DeviceFault> {
        self.gpu.arena().lease(&self.stream, bytes as u64)
    }

    /// Fails with `WrongResult` unless `found` holds `expected`.
    fn compare(&self, found: &DeviceLease, expected: &[u8], what: &str) -> Result<(), DeviceFault> {
        let mut rest = expected;
        self.gpu.ring().download(&self.stream, found.all(), |bytes| {
            let (now, later) = rest.split_at(bytes.len());
            rest = later;
            if bytes == now { Ok(()) } else { Err(DeviceFault::WrongResult(what.to_owned())) }
        })
    }
}
