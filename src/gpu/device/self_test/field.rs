//! Tests the arithmetic of Fr, Fp and Fp2: `kernels/selftest.cu`.

use ark_ff::{Field, PrimeField};

use super::test_device::{COUNT, SelfTestDevice};
use crate::device::{BlockShape, DeviceFault, DevicePtr, Kernel, KernelModule};

/// Threads per block: one per element.
const THREADS: u32 = COUNT as u32;

/// operation, n, a, b, c, d, out.
type FieldKernel =
    Kernel<(u32, u32, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>, DevicePtr<u8>)>;

pub(super) struct FieldOperation<F> {
    /// Selects the operation in the kernels.
    code: u32,
    on_host: fn(&[F; 4]) -> F,
}

fn operation<F>(code: u32, on_host: fn(&[F; 4]) -> F) -> FieldOperation<F> {
    FieldOperation { code, on_host }
}

/// The operations of every field.
fn operations<F: Field>() -> [FieldOperation<F>; 10] {
    [
        operation(0, |[a, b, ..]| *a + b),
        operation(1, |[a, b, ..]| *a - b),
        operation(2, |[a, ..]| -*a),
        operation(3, |[a, ..]| a.double()),
        operation(4, |[a, b, ..]| *a * b),
        operation(5, |[a, ..]| a.square()),
        operation(6, |[a, ..]| a.inverse().unwrap_or(F::ZERO)),
        operation(13, |[a, b, ..]| *a - b),
        operation(14, |[a, ..]| -*a),
        operation(15, |[a, b, ..]| *a + b),
    ]
}

/// The sum and the difference of two products, with a single reduction in fields that support it.
pub(super) fn sums_of_products<F: Field>() -> [FieldOperation<F>; 2] {
    [operation(7, |[a, b, c, d]| *a * b + *c * d), operation(8, |[a, b, c, d]| *a * b - *c * d)]
}

/// Tests the operations of every field and the `extra` ones with the kernel `name`. `element` maps
/// integers to elements.
pub(super) fn test<F: Field>(
    device: &SelfTestDevice<'_>,
    module: &KernelModule,
    name: &str,
    element: impl Fn(u64) -> F,
    extra: &[FieldOperation<F>],
) -> Result<(), DeviceFault> {
    let kernel: FieldKernel = module.kernel(name, BlockShape::threads(THREADS))?;
    let inputs: Vec<[F; 4]> = (0..COUNT as u64).map(|i| input(i, &element)).collect();
    let column = |index: usize| {
        let values: Vec<_> = inputs.iter().map(|row| row[index]).collect();
        device.upload(&bytes(&values))
    };
    let (a, b, c, d) = (column(0)?, column(1)?, column(2)?, column(3)?);
    let out = device.lease(a.bytes() as usize)?;
    for &FieldOperation { code, on_host } in operations().iter().chain(extra) {
        let arguments = (code, THREADS, a.all(), b.all(), c.all(), d.all(), out.all());
        kernel.launch(&device.stream, 1, arguments)?;
        let expected: Vec<F> = inputs.iter().map(on_host).collect();
        device.compare(&out, &bytes(&expected), &format!("{name} {code}"))?;
    }
    Ok(())
}

/// Edge cases first (zero, one, minus one and their neighbours), then values that use all limbs.
fn input<F: Field>(i: u64, element: impl Fn(u64) -> F) -> [F; 4] {
    let edges = [F::ZERO, F::ONE, -F::ONE, F::ONE.double(), -F::ONE.double()];
    if i < 25 {
        return [i % 5, i / 5, i % 5, (i + 1) % 5].map(|index| edges[index as usize]);
    }
    // A power uses all limbs.
    [0, 1, 2, 3].map(|column| element(4 * i + column + 2).pow([0xfff1]))
}

/// Memory layout of elements: each prime-field coordinate in Montgomery form, low limb first.
fn bytes<F: Field>(values: &[F]) -> Vec<u8> {
    let coordinates = values.iter().flat_map(|value| value.to_base_prime_field_elements());
    coordinates.flat_map(montgomery).collect()
}

/// Montgomery form of `value`, computed as the integer of the element `R * value`.
fn montgomery<F: PrimeField>(value: F) -> Vec<u8> {
    use ark_ff::BigInteger;
    let radix = F::from(2_u64).pow([64 * F::BigInt::NUM_LIMBS as u64]);
    (value * radix).into_bigint().to_bytes_le()
}
