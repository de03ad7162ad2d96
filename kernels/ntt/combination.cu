// Linear combinations of up to eight vectors in one pass: out[i] = the sum of factors[k] v_k[i],
// plus out[i] if `accumulate` is not 0.
//
// A thread computes one element. Elements and factors are canonical, in Montgomery form. `out` may
// be any of the vectors: a thread reads before it writes. Vectors from number `terms` on are not
// read. No shared memory, no barriers. Launch: blocks of 128, one thread per element.
//
// Cost per element: 64 limb products per term and 48 for one reduction.
#include "passes.cuh"
#include "wide_sum.cuh"

constexpr uint32_t TERMS_MAX = 8;

struct Factors {
    Fr w[TERMS_MAX];
};

// The sum over R, canonical, for at most eight products and an element times R. The lower half over
// R, the eight products' upper halves and the element are below (1 + 8 r / R + 1) r < 2.6 R.
FN Fr reduce_few(const WideSum& t) {
    Fr low, sum;
#pragma unroll
    for (int i = 0; i < 8; i++) low.w[i] = t.w[i], sum.w[i] = t.w[8 + i];
    add_words<8>(sum.w, sum.w, from_montgomery(low).w);
    uint32_t above = addc(t.w[16], 0);
    ASSERT_RANGE(above <= 2);
    const Fr twice = multiple<2, Fr>();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (above == 0) continue;
        sub_words<8>(sum.w, sum.w, twice.w);
        above += borrow_mask();
    }
    ASSERT_RANGE(above == 0);
    return canonical(sum);
}

KERNEL(128)
fr_linear_combination(const Quad* v0, const Quad* v1, const Quad* v2, const Quad* v3,
                      const Quad* v4, const Quad* v5, const Quad* v6, const Quad* v7, Quad* out,
                      const Factors factors, uint64_t count, uint32_t terms, uint32_t accumulate) {
    const Quad* vectors[TERMS_MAX] = {v0, v1, v2, v3, v4, v5, v6, v7};
    const uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    WideSum sum = zero_sum();
    if (accumulate) {
        const Fr before = load_element(out, i);
#pragma unroll
        for (int limb = 0; limb < 8; limb++) sum.w[8 + limb] = before.w[limb];
    }
#pragma unroll
    for (uint32_t k = 0; k < TERMS_MAX; k++) {
        if (k >= terms) break;
        add_product(sum, factors.w[k], load_element(vectors[k], i));
    }
    store_element(out, i, reduce_few(sum));
}
EXPORT_KERNEL(fr_linear_combination);
