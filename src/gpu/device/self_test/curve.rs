//! Tests addition, doubling and negation of points: `kernels/selftest_curve.cu`.

use ark_ec::{
    CurveGroup, PrimeGroup,
    short_weierstrass::{Affine, Projective, SWCurveConfig},
};
use ark_ff::{AdditiveGroup, Field};

use super::test_device::{COUNT, SelfTestDevice};
use crate::{
    curve::{layout::points_as_bytes, points::CurvePoint},
    device::{BlockShape, DeviceFault, DevicePtr, Kernel, KernelModule},
};

/// Threads per block, as in `__launch_bounds__` of the kernels.
const THREADS: u32 = 64;

/// out, a, b, z, n, op.
type PointsKernel = Kernel<(DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, u32, u32)>;

/// An operation on the host.
type PointOperation<P> = fn(Projective<P>, &Projective<P>) -> Projective<P>;

/// Tests every operation on points of one group. `scale` maps integers to coordinates.
pub(super) fn test<P>(
    device: &SelfTestDevice<'_>,
    module: &KernelModule,
    scale: impl Fn(u64) -> P::BaseField,
) -> Result<(), DeviceFault>
where
    P: SWCurveConfig,
    Affine<P>: CurvePoint<Group = Projective<P>>,
{
    let name = format!("{}_selftest_points", <Affine<P> as CurvePoint>::GROUP);
    let kernel: PointsKernel = module.kernel(&name, BlockShape::threads(THREADS))?;
    let PointOperands { a, b } = operands::<P>();
    let affine = |points: &[Projective<P>]| Projective::normalize_batch(points);
    let upload = |points: &[Affine<P>]| device.upload(points_as_bytes(points));
    // Two adjacent coordinates have the same layout as a point.
    let scales = (0..COUNT as u64 / 2)
        .map(|i| Affine::<P>::new_unchecked(scale(4 * i + 3).square(), scale(4 * i + 5)))
        .collect::<Vec<_>>();
    let (left, right, scales) = (upload(&affine(&a))?, upload(&affine(&b))?, upload(&scales)?);
    let out = device.lease(COUNT * size_of::<Affine<P>>())?;
    let add = |a, b: &_| a + b;
    let double = |a: Projective<P>, _: &_| a.double();
    let negate = |a: Projective<P>, _: &_| -a;
    // By `op`: XYZZ + affine, XYZZ + XYZZ, 2 XYZZ, -XYZZ; these four in Jacobian form; -affine.
    let operations: [PointOperation<P>; 9] =
        [add, add, double, negate, add, add, double, negate, negate];
    for (op, operation) in operations.into_iter().enumerate() {
        let arguments = (out.all(), left.all(), right.all(), scales.all(), COUNT as u32, op as u32);
        kernel.launch(&device.stream, COUNT as u32 / THREADS, arguments)?;
        let expected = a.iter().zip(&b).map(|(a, b)| operation(*a, b)).collect::<Vec<_>>();
        let expected = affine(&expected);
        device.compare(&out, points_as_bytes(&expected), &format!("{name} {op}"))?;
    }
    Ok(())
}

/// The points `a[i]` and `b[i]` are the operands of one operation.
struct PointOperands<P: SWCurveConfig> {
    a: Vec<Projective<P>>,
    b: Vec<Projective<P>>,
}

/// Pairs of points that include every exceptional case: infinity on either side and on both, equal
/// points, opposite points.
fn operands<P: SWCurveConfig>() -> PointOperands<P> {
    let generator = Projective::<P>::generator();
    let mut power = generator;
    // Skip small multiples, whose coordinates may be special.
    for _ in 0..COUNT {
        power = power.double() + generator;
    }
    let mut next = || {
        power = power.double() + generator;
        power
    };
    let (mut a, mut b): (Vec<_>, Vec<_>) = (0..COUNT).map(|_| (next(), next())).unzip();
    let infinity = Projective::<P>::ZERO;
    let exceptional =
        [(infinity, b[0]), (a[1], infinity), (infinity, infinity), (a[3], a[3]), (a[4], -a[4])];
    for (i, pair) in exceptional.into_iter().enumerate() {
        // Once in a warp with other exceptional cases, once among generic pairs.
        for i in [i, COUNT / 2 + 3 * i] {
            (a[i], b[i]) = pair;
        }
    }
    PointOperands { a, b }
}
