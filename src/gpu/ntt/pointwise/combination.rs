//! Linear combinations of vectors: one pass over all of them, and one reduction per element.

use super::{DeviceVector, ElementPtr, THREADS, common_length, element_grid, montgomery};
use crate::{
    curve::Fr,
    device::{BlockShape, DeviceFault, Gpu, GpuUnavailable, Kernel, KernelModule, Stream},
    ntt::elements::DeviceFr,
};

/// The most vectors per launch.
const TERMS_MAX: usize = 8;

/// Parameters: eight vectors, out, factors, count, vectors to read, whether to add to out.
#[rustfmt::skip]
type CombinationKernel = Kernel<(
    ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr, ElementPtr,
    ElementPtr, [DeviceFr; TERMS_MAX], u64, u32, u32,
)>;

/// A vector times a factor, of a linear combination.
#[derive(Clone, Copy)]
pub struct LinearTerm<'a> {
    pub factor: Fr,
    pub vector: DeviceVector<'a>,
}

pub(super) struct LinearCombiner {
    combination: CombinationKernel,
}

impl LinearCombiner {
    pub fn load(gpu: &Gpu) -> Result<Self, GpuUnavailable> {
        let module = KernelModule::load(gpu.context(), "ntt/combination")?;
        let combination = module.kernel("fr_linear_combination", BlockShape::threads(THREADS));
        let failed = |fault| GpuUnavailable::Device { index: gpu.identity().index, fault };
        Ok(Self { combination: combination.map_err(failed)? })
    }

    pub fn run(
        &self,
        stream: &Stream,
        out: DeviceVector<'_>,
        terms: &[LinearTerm<'_>],
    ) -> Result<(), DeviceFault> {
        let vectors: Vec<_> = terms.iter().map(|term| term.vector).collect();
        let count = common_length(out, &vectors)?;
        // The first launch overwrites `out`, so it must be the one that reads it as an input.
        let is_out = |term: &LinearTerm<'_>| term.vector.arena_offset() == out.arena_offset();
        let (of_out, mut terms): (Vec<_>, Vec<_>) = terms.iter().copied().partition(is_out);
        if !of_out.is_empty() || terms.is_empty() {
            let factor = of_out.iter().map(|term| term.factor).sum();
            terms.insert(0, LinearTerm { factor, vector: out });
        }
        for (i, terms) in terms.chunks(TERMS_MAX).enumerate() {
            let vector = |k: usize| terms.get(k).map_or(out, |term| term.vector);
            let factor = |k: usize| terms.get(k).map_or([0; 4], |term| montgomery(term.factor));
            let [v0, v1, v2, v3, v4, v5, v6, v7] = std::array::from_fn(vector);
            let factors = std::array::from_fn(factor);
            let read = terms.len() as u32;
            let accumulate = u32::from(i > 0);
            let arguments = (v0, v1, v2, v3, v4, v5, v6, v7, out, factors, count, read, accumulate);
            self.combination.launch(stream, element_grid(count)?, arguments)?;
        }
        Ok(())
    }
}
