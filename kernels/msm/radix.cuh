// Recodes scalars into digits of a radix B that is not a power of two, most significant first.
//
// Let h be the sum of B^j B / 2 over all c windows. The digits of k are those of N = k + h, minus
// B / 2 each, and N < B^c < 2^256 (scripts/kernel-params). x = N 2^256 / B^c is a fraction of
// 2^256. x B carries the highest digit out of its eight words, the remainder gives the next one,
// and so on: one division for all digits. x is too large, by e between 1/16 and 17/16. After t
// digits the error is e B^t, in units of 2^-256, and the exact remainder is a multiple of B^(t - c)
// below 1: digits are correct if 0 < e < 2^256 / B^c. So x can drop low words as digits are
// extracted: each of two drops loses at most 1/256 of B^(t - c), both together less than that 1/16.
#pragma once
#include "../carry.cuh"
#include "../params/radices.cuh"

// A block's constants for windows of a radix, in shared memory.
struct RadixTable {
    uint32_t halves[8];   // h
    uint32_t inverse[10]; // 2^544 / B^c, rounded up
    uint32_t enough[2];   // last digits for which 2 and 5 words of x suffice
};
// All threads of the block take part; a barrier must follow.
FN void fill_radix(RadixTable* table, uint32_t windows) {
    const uint32_t i = threadIdx.x;
#pragma unroll
    for (uint32_t row = 0; row < RADICES; row++) {
        if (RADIX_WINDOWS[row] != windows) continue;
        if (i < 8) table->halves[i] = RADIX_HALVES[row][i];
        if (i < 10) table->inverse[i] = RADIX_INVERSES[row][i];
        if (i < 2) table->enough[i] = RADIX_ENOUGH[row][i];
    }
}

// x = N 2^256 / B^c + e. Products of words i and j with i + j < 7 are left out: less than 8 in word
// 8 of the product, so the sum starts with 1/16 plus 8. Word 9 is the result's lowest.
FN void to_fraction(uint32_t (&x)[9], const RadixTable* table) {
    uint32_t sum[10]; // words 7 to 16
#pragma unroll
    for (int i = 0; i < 10; i++) sum[i] = i == 1 ? (1u << 28) + 8 : i == 2 ? 1 : 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t carry = 0;
#pragma unroll
        for (int j = 0; j < 10; j++) {
            if (i + j < 7 || i + j > 16) continue;
            const uint64_t wide = wide_product(x[i], table->inverse[j]) + sum[i + j - 7] + carry;
            sum[i + j - 7] = uint32_t(wide);
            carry = uint32_t(wide >> 32);
        }
        if (i < 7) sum[i + 3] = carry;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = sum[i + 2];
}
// x = x B mod 2^256 on the upper WORDS words; returns the carry out.
template <int WORDS> FN uint32_t times_radix(uint32_t (&x)[9], uint32_t radix) {
    uint32_t carry = 0;
#pragma unroll
    for (int i = 8 - WORDS; i < 8; i++) {
        const uint64_t wide = wide_product(x[i], radix) + carry;
        x[i] = uint32_t(wide);
        carry = uint32_t(wide >> 32);
    }
    return carry;
}
// Extracts the digits that need WORDS words, 8, 5 or 2, then those that need fewer.
template <int WORDS, class Visit>
FN void for_each_digit_by_words(uint32_t (&x)[9], uint32_t radix, uint32_t windows,
                                const RadixTable* table, Visit each) {
    uint32_t later = 0;
    if constexpr (WORDS > 2) later = table->enough[WORDS / 3 - 1];
#pragma unroll 1
    while (windows > later) each(--windows, int32_t(times_radix<WORDS>(x, radix) - radix / 2));
    if constexpr (WORDS > 2) for_each_digit_by_words<WORDS - 3>(x, radix, windows, table, each);
}

// Calls each(window, digit) for all windows of k < 2^254, eight words, unless the warp's k are all
// 0.
template <class Visit>
FN void for_each_radix_digit(uint32_t (&k)[9], uint32_t radix, uint32_t windows,
                             const RadixTable* table, Visit each) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) any |= k[i];
    if (!__any_sync(ALL_LANES, any != 0)) return;
    k[0] = add_cc(k[0], table->halves[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) k[i] = addc_cc(k[i], table->halves[i]);
    to_fraction(k, table);
    for_each_digit_by_words<8>(k, radix, windows, table, each);
}
