// The summands of a batch of additions: a table of points, and for each sum two references into it.
// A reference is an index with the sign of the point in its top bit.
#pragma once
#include "../memory.cuh"

constexpr uint32_t SIGN = 0x80000000u;

struct alignas(8) Pair {
    uint32_t first, second;
};

// -y if the reference is negative, else y. y is loose, the result <= 2p.
template <class F> FN F with_sign(const F& y, uint32_t reference) {
    return blend(uint32_t(int32_t(reference) >> 31), neg_lazy<2>(y), y);
}

template <class F> struct Summands {
    const Affine<F>* table;
    const Pair* pairs;

    FN Affine<F> load(uint32_t reference) const {
        const Affine<F> point = load_affine(table + (reference & ~SIGN));
        return {point.x, with_sign(point.y, reference)};
    }
};
