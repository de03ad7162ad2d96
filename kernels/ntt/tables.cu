// Twiddle tables, computed on the device from a few powers.
//
// A thread computes one entry. No shared memory, no barriers. Launch: blocks of 128, at least one
// thread per entry.
//
//   entry (p, k), p < 2^lg_p, k < 2^lg_k:
//       c root^(rev(p) k 2^lg_step) a^(k 2^lg_step) b^rev(p)     rev: lg_p bits reversed
//
//   powers  3 x 32 elements in Montgomery form, root, a, b to the powers 2^0, 2^1, ..., and then
//           the `multiples` integers c 2^(32 (N + L j)) of field/fr.cuh, j < multiples
//   table   entry number p 2^lg_k + k: if `plane` is 0, 2 `multiples` contiguous halves; else
//           half h of multiple j at [(2 j + h) plane + group_stride (number / 8) + number % 8]
#include "passes.cuh"

constexpr uint32_t ROOT = 0, A = 32, B = 64, MULTIPLES = 96;

// x base^exponent, where the base's squares begin at `squares`.
FN Fr times_power(Fr x, const Quad* squares, uint64_t exponent) {
#pragma unroll 1
    for (uint32_t i = 0; exponent; i++, exponent >>= 1) {
        if (exponent & 1) x = mul(x, load_element(squares, i));
    }
    return x;
}

KERNEL(128)
ntt_twiddles(Quad* table, const Quad* powers, uint32_t multiples, uint32_t lg_p, uint32_t lg_k,
            uint32_t lg_step, uint32_t plane, uint32_t group_stride) {
    const uint64_t number = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (number >> (lg_p + lg_k)) return;
    const uint64_t p = reverse(uint32_t(number >> lg_k), lg_p);
    const uint64_t k = (number & ((uint64_t(1) << lg_k) - 1)) << lg_step;
    Fr factor = times_power(Fr::one(), powers + 2 * ROOT, p * k);
    factor = times_power(factor, powers + 2 * A, k);
    factor = times_power(factor, powers + 2 * B, p);
    for (uint32_t j = 0; j < multiples; j++) {
        const Fr multiple = canonical(mul(factor, load_element(powers, MULTIPLES + j)));
        const uint64_t place = number / 8 * group_stride + number % 8;
        const uint64_t low = plane ? 2 * j * plane + place : 2 * (number * multiples + j);
        store_halves(table + low, table + low + (plane ? plane : 1), multiple);
    }
}
EXPORT_KERNEL(ntt_twiddles);

// to[i] = from[i] for i < count elements: a transform of one element.
KERNEL(128) ntt_copy(const Quad* from, Quad* to, uint64_t count) {
    const uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >> 1 < count) to[i] = from[i];
}
EXPORT_KERNEL(ntt_copy);
