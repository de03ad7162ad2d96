//! The power-on self-test: compares operations on the device with arkworks and plain integers on
//! the host. A device that fails it is not used.

mod curve;
mod field;
mod test_device;
mod words;

use std::time::Instant;

use ark_bls12_381::{Fq, Fq2, Fr, g1, g2};
use ark_ff::Field;

use self::test_device::SelfTestDevice;
use super::{DeviceArena, DeviceContext, GpuUnavailable, KernelModule, StagingRing, Stream};

/// Tests a device and returns a summary; `WrongResult` if a result differs from the host's.
pub(super) fn run(
    context: &DeviceContext,
    arena: &DeviceArena,
    ring: &StagingRing,
) -> Result<String, GpuUnavailable> {
    let start = Instant::now();
    let index = context.identity().index;
    let field = KernelModule::load(context, "selftest")?;
    let curve = KernelModule::load(context, "selftest_curve")?;
    let test = || {
        let device = SelfTestDevice { arena, ring, stream: Stream::new(context)? };
        words::test(&device, &field)?;
        field::test(&device, &field, "selftest_fr", Fr::from, &[])?;
        field::test(&device, &field, "selftest_fp", Fq::from, &field::sums_of_products())?;
        field::test(&device, &field, "selftest_fp2", fq2, &field::sums_of_products()[1..])?;
        curve::test::<g1::Config>(&device, &curve, Fq::from)?;
        curve::test::<g2::Config>(&device, &curve, fq2)
    };
    let tested = test().map_err(|fault| context.report(fault));
    tested.map_err(|fault| GpuUnavailable::Device { index, fault })?;
    Ok(format!("passed in {} ms", start.elapsed().as_millis()))
}

/// An element with two generic coordinates.
fn fq2(seed: u64) -> Fq2 {
    Fq2::new(Fq::from(seed), Fq::from(seed).square() + Fq::ONE)
}
