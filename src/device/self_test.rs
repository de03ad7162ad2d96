//! The power-on self-test: operations on this device against the same by arkworks on the host. A
//! device that fails it computes nothing for anybody.

use std::time::Instant;

use ark_bls12_381::{Fq, Fq2, g1, g2};
use ark_ec::{
    AffineRepr, CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{AdditiveGroup, Field};

use super::{Block, Fault, Gpu, Kernel, Lease, Module, Ptr, Stream, Unusable};
use crate::curve::{layout::points_as_bytes, points::CurvePoint};

/// Elements of each operation: two warps, so that divergence inside of one shows.
const COUNT: usize = 64;

/// Threads of a block of the curve's kernels.
const CURVE_THREADS: u32 = 64;

/// out, a, b, z, n, op.
type PointOperation = Kernel<(Ptr<u8>, Ptr<u8>, Ptr<u8>, Ptr<u8>, u32, u32)>;

/// What `op` of a [`PointOperation`] does; see `kernels/selftest_curve.cu`.
#[derive(Clone, Copy)]
enum Operation {
    Add,
    Double,
    Negate,
}

/// By `op`: XYZZ with affine, XYZZ with XYZZ, doubled and negated, the same in Jacobian, affine.
const OPERATIONS: [Operation; 9] = {
    use Operation::{Add, Double, Negate};
    [Add, Add, Double, Negate, Add, Add, Double, Negate, Negate]
};

/// Tests `gpu`, and says how it went.
///
/// Errors: `Device` with `Wrong` where a result is not arkworks'; `NoKernels`, `NoImage`.
pub(super) fn run(gpu: &Gpu) -> Result<String, Unusable> {
    let begun = Instant::now();
    let index = gpu.identity().index;
    let failed = |fault| Unusable::Device { index, fault: gpu.context().met(fault) };
    let stream = Stream::new(gpu.context()).map_err(failed)?;
    let curve = Module::load(gpu.context(), "selftest_curve")?;
    let bench = Bench { gpu, stream };
    bench.curve::<g1::Config>(&curve, Fq::from).map_err(failed)?;
    let fq2 = |seed| Fq2::new(Fq::from(seed), Fq::from(seed).square() + Fq::ONE);
    bench.curve::<g2::Config>(&curve, fq2).map_err(failed)?;
    Ok(format!("passed in {} ms", begun.elapsed().as_millis()))
}

/// One device and a stream on it.
struct Bench<'a> {
    gpu: &'a Gpu,
    stream: Stream,
}

impl Bench<'_> {
    /// Every operation on points of one group. `scale` makes coordinates of numbers.
    fn curve<P>(&self, module: &Module, scale: impl Fn(u64) -> P::BaseField) -> Result<(), Fault>
    where
        P: SWCurveConfig,
        Affine<P>: CurvePoint<Group = Projective<P>>,
    {
        let name = format!("{}_selftest_points", <Affine<P> as CurvePoint>::GROUP);
        let kernel: PointOperation = module.kernel(&name, Block::of(CURVE_THREADS))?;
        let (a, b) = operands::<P>();
        let affine = |points: &[Projective<P>]| Projective::normalize_batch(points);
        // Two coordinates next to each other lie in memory as one point's do.
        let scales = (0..COUNT as u64 / 2)
            .map(|i| Affine::<P>::new_unchecked(scale(4 * i + 3).square(), scale(4 * i + 5)))
            .collect::<Vec<_>>();
        let (left, right) = (self.put(&affine(&a))?, self.put(&affine(&b))?);
        let scales = self.put(&scales)?;
        let out = self.put(&vec![Affine::<P>::zero(); COUNT])?;
        for (op, operation) in OPERATIONS.iter().enumerate() {
            let given = (out.all(), left.all(), right.all(), scales.all(), COUNT as u32, op as u32);
            kernel.launch(&self.stream, 1, given)?;
            let expected = a.iter().zip(&b).map(|(a, b)| match operation {
                Operation::Add => *a + b,
                Operation::Double => a.double(),
                Operation::Negate => -*a,
            });
            let expected = affine(&expected.collect::<Vec<_>>());
            self.compare(&out, points_as_bytes(&expected), &format!("{name} {op}"))?;
        }
        Ok(())
    }

    /// A lease that holds `points`.
    fn put<A: CurvePoint>(&self, points: &[A]) -> Result<Lease, Fault> {
        let bytes = points_as_bytes(points);
        let lease = self.gpu.arena().lease(&self.stream, bytes.len() as u64)?;
        self.gpu.ring().upload(&self.stream, lease.all()).write(bytes)?;
        Ok(lease)
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

/// Pairs of points with every exceptional case among them: infinity on either side and on both,
/// equal, opposite.
fn operands<P: SWCurveConfig>() -> (Vec<Projective<P>>, Vec<Projective<P>>) {
    let generator = Projective::<P>::generator();
    let mut power = generator;
    // No small multiples: their coordinates may be special.
    for _ in 0..COUNT {
        power = power.double() + generator;
    }
    let mut next = || {
        power = power.double() + generator;
        power
    };
    let (mut a, mut b): (Vec<_>, Vec<_>) = (0..COUNT).map(|_| (next(), next())).unzip();
    let infinity = Projective::<P>::ZERO;
    for (at, (left, right)) in
        [(infinity, b[0]), (a[1], infinity), (infinity, infinity), (a[3], a[3]), (a[4], -a[4])]
            .into_iter()
            .enumerate()
    {
        // Once in a warp of its own kind, once more among others.
        for at in [at, COUNT / 2 + 3 * at] {
            (a[at], b[at]) = (left, right);
        }
    }
    (a, b)
}
