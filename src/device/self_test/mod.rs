//! The power-on self-test: operations on this device against the same on the host, by arkworks and
//! by plain integers. A device that fails it computes nothing for anybody.

mod curve;
mod field;
mod words;

use std::time::Instant;

use ark_bls12_381::{Fq, Fq2, Fr, g1, g2};
use ark_ff::Field;
use bytemuck::Pod;

use super::{Fault, Gpu, Lease, Module, Stream, Unusable};

/// Elements of each operation: two warps, so that divergence inside of one shows.
const COUNT: usize = 64;

/// Tests `gpu`, and says how it went.
///
/// Errors: `Device` with `Wrong` where a result is not the host's; `NoKernels`, `NoImage`.
pub(super) fn run(gpu: &Gpu) -> Result<String, Unusable> {
    let begun = Instant::now();
    let index = gpu.identity().index;
    let field = Module::load(gpu.context(), "selftest")?;
    let curve = Module::load(gpu.context(), "selftest_curve")?;
    let test = || {
        let bench = Bench { gpu, stream: Stream::new(gpu.context())? };
        words::test(&bench, &field)?;
        let (sum, difference) = (field::sum_of_products(), field::difference_of_products());
        field::test(&bench, &field, "selftest_fr", Fr::from, &[])?;
        field::test(&bench, &field, "selftest_fp", Fq::from, &[sum, difference])?;
        field::test(&bench, &field, "selftest_fp2", fq2, &[field::difference_of_products()])?;
        curve::test::<g1::Config>(&bench, &curve, Fq::from)?;
        curve::test::<g2::Config>(&bench, &curve, fq2)
    };
    let done = test().map_err(|fault| gpu.context().met(fault));
    done.map_err(|fault| Unusable::Device { index, fault })?;
    Ok(format!("passed in {} ms", begun.elapsed().as_millis()))
}

/// Neither coordinate is special.
fn fq2(seed: u64) -> Fq2 {
    Fq2::new(Fq::from(seed), Fq::from(seed).square() + Fq::ONE)
}

/// One device and a stream on it.
struct Bench<'a> {
    gpu: &'a Gpu,
    stream: Stream,
}

impl Bench<'_> {
    /// A lease that holds `values`.
    fn put<T: Pod>(&self, values: &[T]) -> Result<Lease, Fault> {
        let bytes = bytemuck::cast_slice(values);
        let lease = self.gpu.arena().lease(&self.stream, bytes.len() as u64)?;
        self.gpu.ring().upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
    }

    /// A lease for results, of so many bytes.
    fn room(&self, bytes: usize) -> Result<Lease, Fault> {
        self.gpu.arena().lease(&self.stream, bytes as u64)
    }

    /// Fails unless `found` holds `expected`.
    fn compare(&self, found: &Lease, expected: &[u8], what: &str) -> Result<(), Fault> {
        let mut rest = expected;
        self.gpu.ring().download(&self.stream, found.all(), |bytes| {
            let (now, later) = rest.split_at(bytes.len());
            rest = later;
            if bytes == now { Ok(()) } else { Err(Fault::Wrong(what.to_owned())) }
        })
    }
}
