//! `kernels/selftest.cu`: the carry chains of `kernels/carry.cuh`.

use capstan::device::DevicePtr;
use rand::Rng;

use crate::{elements::rng, gpu::each_seed};

const WORDS: usize = 24;
const LOW: u64 = 0xffff_ffff;

/// What the kernel must write for one input.
fn expected(a: u64, b: u64, c: u64, shift: u32) -> [u32; WORDS] {
    let carry = |wide: u64| wide >> 32 & 1;
    let borrow = |wide: u64| wide >> 63;
    let mut out = Vec::new();
    let (first, second) = (a + b, b + c + carry(a + b));
    out.extend([first, second, c + a + carry(second)]);
    let first = a.wrapping_sub(b);
    let second = b.wrapping_sub(c).wrapping_sub(borrow(first));
    out.extend([first, second, c.wrapping_sub(a).wrapping_sub(borrow(second))]);
    let low = ((a * b) & LOW) + c;
    let middle = ((a * b) >> 32) + carry(low);
    out.extend([low, middle, ((b * c) >> 32) + carry(middle)]);
    let low = ((b * c) & LOW) + a + carry(a + c);
    out.extend([a + c, low, ((b * c) >> 32) + carry(low)]);
    let square = u128::from(a * a) + u128::from(c << 32 | b);
    out.extend([square as u64, (square >> 32) as u64, (square >> 64) as u64]);
    out.extend([b * c, (b * c) >> 32, c + carry(a + b), 0]);
    let words = b << 32 | a;
    out.extend([(a as u32).leading_zeros().into(), words << shift >> 32, words >> shift]);
    out.extend([if a < b { LOW } else { 0 }, ((b * c) & LOW) + a]);
    std::array::from_fn(|i| out[i] as u32)
}

#[test]
fn carries_are_right() {
    let mut rng = rng();
    let edges = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX];
    let mut inputs: Vec<[u32; 4]> = Vec::new();
    for a in edges {
        for b in edges {
            inputs.extend(edges.map(|c| [a, b, c, rng.random_range(0..32)]));
        }
    }
    inputs.extend((0..500).map(|i| [rng.random(), rng.random(), rng.random(), i % 32]));
    each_seed(|rig| {
        type Arguments =
            (u32, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>, DevicePtr<u32>);
        let kernel = rig.kernel::<Arguments>("selftest", "selftest_words", 128);
        let columns: [_; 4] = std::array::from_fn(|i| {
            rig.upload(&inputs.iter().map(|row| row[i]).collect::<Vec<_>>())
        });
        let [a, b, c, shift] = columns.each_ref().map(|column| column.all());
        let out = rig.lease::<u32>(WORDS * inputs.len());
        rig.launch(&kernel, 2, (inputs.len() as u32, a, b, c, shift, out.all()));
        for (found, input) in rig.download::<u32>(&out).chunks(WORDS).zip(&inputs) {
            let [a, b, c, shift] = *input;
            assert_eq!(found, expected(a.into(), b.into(), c.into(), shift), "{input:x?}");
        }
    });
}
