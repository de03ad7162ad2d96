//! Tests the 32-bit carry primitives of all arithmetic: `selftest_words` of `kernels/selftest.cu`.

use super::test_device::SelfTestDevice;
use crate::device::{BlockShape, DeviceFault, DevicePtr, Kernel, KernelModule};

/// Threads per block, as in `__launch_bounds__` of the kernel.
const THREADS: u32 = 128;

/// The low 32 bits.
const LOW: u64 = 0xffff_ffff;

/// Operands that do and do not produce carries.
const EDGES: [u32; 6] = [0, 1, 0x7fff_ffff, 0x8000_0001, 0xffff_fffe, u32::MAX];

/// n, a, b, c, shifts, out.
type WordsKernel =
    Kernel<(u32, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>)>;

/// Tests every primitive on every triple of edge values.
pub(super) fn test(device: &SelfTestDevice<'_>, module: &KernelModule) -> Result<(), DeviceFault> {
    let kernel: WordsKernel = module.kernel("selftest_words", BlockShape::threads(THREADS))?;
    let n = EDGES.len().pow(3);
    let column = |f: &dyn Fn(usize) -> u32| device.upload(&(0..n).map(f).collect::<Vec<_>>());
    let edge = |i: usize, operand: u32| EDGES[i / EDGES.len().pow(operand) % EDGES.len()];
    let [a, b, c] = [0, 1, 2].map(|operand| column(&|i| edge(i, operand)));
    let a = a?;
    let b = b?;
    let c = c?;
    let shifts = column(&|i| i as u32 % 32)?;
    let expected: Vec<_> = (0..n)
        .flat_map(|i| {
            let [a, b, c] = [0, 1, 2].map(|operand| u64::from(edge(i, operand)));
            words(a, b, c, i as u32 % 32)
        })
        .collect();
    let out = device.lease(size_of_val(expected.as_slice()))?;
    let arguments = (n as u32, a.all(), b.all(), c.all(), shifts.all(), out.all());
    kernel.launch(&device.stream, (n as u32).div_ceil(THREADS), arguments)?;
    device.compare(&out, bytemuck::cast_slice(&expected), "selftest_words")
}

/// The 24 words that the kernel must write for one element.
fn words(a: u64, b: u64, c: u64, shift: u32) -> impl Iterator<Item = u32> {
    let carry = |wide: u64| wide >> 32 & 1;
    let sums = {
        let second = b + c + carry(a + b);
        [a + b, second, c + a + carry(second)]
    };
    let differences = {
        let first = a.wrapping_sub(b);
        let borrow = |wide: u64| wide >> 63;
        let second = b.wrapping_sub(c).wrapping_sub(borrow(first));
        [first, second, c.wrapping_sub(a).wrapping_sub(borrow(second))]
    };
    let products = {
        let low = ((a * b) & LOW) + c;
        let middle = ((a * b) >> 32) + carry(low);
        [low, middle, ((b * c) >> 32) + carry(middle)]
    };
    let after_sum = {
        let low = ((b * c) & LOW) + a + carry(a + c);
        [a + c, low, ((b * c) >> 32) + carry(low)]
    };
    let square = u128::from(a * a) + u128::from(c << 32 | b);
    let square = [0, 32, 64].map(|shift| (square >> shift) as u64);
    let pair = b << 32 | a;
    let rest = [
        b * c,
        (b * c) >> 32,
        c + carry(a + b),
        0,
        u64::from((a as u32).leading_zeros()),
        pair << shift >> 32,
        pair >> shift,
        if a < b { LOW } else { 0 },
        ((b * c) & LOW) + a,
    ];
    let all = sums.into_iter().chain(differences).chain(products).chain(after_sum).chain(square);
    all.chain(rest).map(|wide| wide as u32)
}
