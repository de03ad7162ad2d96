// Scalars to digits of a radix B that is no power of two, the highest first.
//
// With h the sum of B^j B / 2 over all c windows, the digits of k are those of N = k + h less B / 2
// each, and N < B^c < 2^256 (scripts/kernel-params). x = N 2^256 / B^c is a fraction of 2^256, and
// x B carries the highest digit out of its eight words, what is left the next one, and so on: one
// division for all digits. x is rounded up, by e < 1 + 2^-28. After t digits that is e B^t, in
// 2^-256, and what is left is a multiple of B^(t - c) below 1: digits are right where e < 2^256 / B^c.
#pragma once
#include "../carry.cuh"
#include "../params/radices.cuh"

// What windows of a radix need, a block's, in shared memory.
struct RadixTable {
    uint32_t halves[8];  // h
    uint32_t inverse[9]; // what 2^256 / B^c has behind the point, times 2^288, rounded up
    uint32_t whole;      // and before it
};
// A part of all threads' work: a barrier follows.
FN void fill_radix(RadixTable* table, uint32_t windows) {
    const uint32_t i = threadIdx.x;
#pragma unroll
    for (uint32_t row = 0; row < RADICES; row++) {
        if (RADIX_WINDOWS[row][0] != windows) continue;
        if (i < 8) table->halves[i] = RADIX_HALVES[row][i];
        if (i < 9) table->inverse[i] = RADIX_INVERSES[row][i];
        if (i == 0) table->whole = RADIX_WINDOWS[row][1];
    }
}

// x = N 2^256 / B^c, rounded up. Products of words i and j with i + j < 7 are left out: less than 8
// in word 8 of the product, so 8 are there from the start. Word 9 is the result's lowest.
FN void to_fraction(uint32_t (&x)[9], const RadixTable* table) {
    uint32_t sum[11]; // words 7 to 17
#pragma unroll
    for (int i = 0; i < 11; i++) sum[i] = i == 1 ? 8 : i == 2 ? 1 : 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t carry = 0;
#pragma unroll
        for (int j = 0; j < 9; j++) {
            if (i + j < 7) continue;
            const uint64_t wide = wide_product(x[i], table->inverse[j]) + sum[i + j - 7] + carry;
            sum[i + j - 7] = uint32_t(wide);
            carry = uint32_t(wide >> 32);
        }
        sum[i + 2] += carry; // 0 before, or a constant
    }
    const uint32_t twice = table->whole - 1; // 0 or 1
    uint32_t shifted[8];
    shifted[0] = x[0] << twice;
#pragma unroll
    for (int i = 1; i < 8; i++) shifted[i] = funnel_left(x[i - 1], x[i], twice);
    x[0] = add_cc(sum[2], shifted[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) x[i] = addc_cc(sum[i + 2], shifted[i]);
}
// x becomes x B mod 2^256; gives what is carried out.
FN uint32_t times_radix(uint32_t (&x)[9], uint32_t radix) {
    uint32_t even[8], odd[8];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        mul_wide(even[i], even[i + 1], x[i], radix);
        mul_wide(odd[i], odd[i + 1], x[i + 1], radix);
    }
    x[0] = even[0];
    x[1] = add_cc(even[1], odd[0]);
#pragma unroll
    for (int i = 2; i < 8; i++) x[i] = addc_cc(even[i], odd[i - 1]);
    return addc(odd[7], 0);
}

// Calls each(window, digit) for all windows of k < 2^254, eight words, unless all of the warp's k
// are 0.
template <class Each>
FN void each_of_radix(uint32_t (&k)[9], uint32_t radix, uint32_t windows, const RadixTable* table,
                      Each each) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) any |= k[i];
    if (!__any_sync(ALL_LANES, any != 0)) return;
    k[0] = add_cc(k[0], table->halves[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) k[i] = addc_cc(k[i], table->halves[i]);
    to_fraction(k, table);
#pragma unroll 1
    for (uint32_t j = windows; j-- > 0;) each(j, int32_t(times_radix(k, radix) - radix / 2));
}
