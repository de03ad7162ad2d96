// Sums of multiples of integers, modulo a power of 2^32. A negative factor -f takes f times the
// complement of the integer, whose limbs are all ones above its highest one, and f more.
#pragma once
#include "four_limbs.cuh"

constexpr uint32_t SUM_TERMS_MAX = 8;

// The words of SumTerms in src/gpu/ntt31/limb_kernels.rs. The magnitudes add up to less than 2^32.
struct SumTerms {
    uint32_t magnitude[SUM_TERMS_MAX];
    // Limbs of a row.
    uint32_t length[SUM_TERMS_MAX];
    uint32_t count;
    // A bit for each term with a negative factor.
    uint32_t negative;
};

// The source of a sum's limbs: the rows of the terms.
struct SumLimbs {
    const uint32_t* rows[SUM_TERMS_MAX];
    const SumTerms& terms;
    uint32_t limb_count;

    FN uint32_t quads() const { return (limb_count + 3) / 4; }
    FN void compute(FourLimbs (&parts)[1], uint32_t quad) const {
        const uint32_t first = 4 * quad;
        uint64_t sums[4] = {};
        uint64_t carry = 0;
#pragma unroll
        for (uint32_t term = 0; term < SUM_TERMS_MAX; term++) {
            if (term >= terms.count) break;
            const uint32_t magnitude = terms.magnitude[term], length = terms.length[term];
            const uint32_t flipped = 0 - (terms.negative >> term & 1);
            if (quad == 0) carry += magnitude & flipped;
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t limb = first + i < length ? rows[term][first + i] : 0;
                sums[i] += wide_product(limb ^ flipped, magnitude);
            }
        }
        // A sum is at most (2^32 - 1)^2 + 2^32 - 1.
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint64_t sum = sums[i] + carry;
            parts[0].w[i] = uint32_t(sum);
            carry = sum >> 32;
        }
        parts[0].carry = carry;
    }
};
