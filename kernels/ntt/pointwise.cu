// Elementwise operations on vectors of Fr, which provers need between transforms.
//
// A thread computes one element of `out`; for fr_extend_powers, every `have`-th one. Elements are
// canonical, in Montgomery form. `out` may be any of the inputs: a thread accesses only its own
// positions and reads before it writes. No shared memory, no barriers. Launch: blocks of 128, one
// thread per element (fr_extend_powers: `have` threads; fr_first_powers: one block).
//
// Factors common to all elements are passed as 64-bit parameters: four for the Montgomery form,
// eight for two precomputed multiples (../field/fr.cuh).
#include "passes.cuh"

FN uint64_t thread_number() { return uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
FN Fr element_of(uint64_t w0, uint64_t w1, uint64_t w2, uint64_t w3) {
    return {{uint32_t(w0), uint32_t(w0 >> 32), uint32_t(w1), uint32_t(w1 >> 32), uint32_t(w2),
             uint32_t(w2 >> 32), uint32_t(w3), uint32_t(w3 >> 32)}};
}
// Makes canonical a product with at least one canonical factor, or a lazy sum of such products.
FN Fr reduced(const Fr& product) { return reduce_once<1>(product); }

#define POINTWISE(name, result)                                                     \
    KERNEL(128) name(const Quad* a, const Quad* b, Quad* out, uint64_t count) {     \
        const uint64_t i = thread_number();                                         \
        if (i >= count) return;                                                     \
        const Fr x = load_element(a, i), y = load_element(b, i);                    \
        store_element(out, i, result);                                              \
    }                                                                               \
    EXPORT_KERNEL(name)

POINTWISE(fr_multiply, reduced(mul(x, y)));
POINTWISE(fr_add, add(x, y));
POINTWISE(fr_subtract, sub(x, y));

// out[i] = a[i] w.
KERNEL(128)
fr_scale(const Quad* a, Quad* out, uint64_t count, uint64_t w0, uint64_t w1, uint64_t w2,
         uint64_t w3, uint64_t w4, uint64_t w5, uint64_t w6, uint64_t w7) {
    const Fr multiples[2] = {element_of(w0, w1, w2, w3), element_of(w4, w5, w6, w7)};
    const uint64_t i = thread_number();
    if (i >= count) return;
    const Fr x = load_element(a, i);
    store_element(out, i, reduced(mul_constant<2>(x, PrecomputedMultiples{multiples})));
}
EXPORT_KERNEL(fr_scale);

// out[i] = (a[i] b[i] - c[i]) w.
KERNEL(128)
fr_quotient(const Quad* a, const Quad* b, const Quad* c, Quad* out, uint64_t count, uint64_t w0,
            uint64_t w1, uint64_t w2, uint64_t w3) {
    const uint64_t i = thread_number();
    if (i >= count) return;
    const Fr x = load_element(a, i), y = load_element(b, i), z = load_element(c, i);
    Fr t = mul(x, y); // below 1.46 r, as x y / R < .453 r
    sub_words<8>(t.w, t.w, z.w);
    add_words_if(t.w, multiple<1, Fr>().w, borrow_mask());
    store_element(out, i, reduced(mul(t, element_of(w0, w1, w2, w3))));
}
EXPORT_KERNEL(fr_quotient);

// first base^exponent.
FN Fr times_power(const Fr& first, const Fr& base, uint32_t exponent) {
    Fr power = first, square = base;
#pragma unroll 1
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) power = mul(power, square);
        square = reduced(sqr(square));
    }
    return reduced(power);
}

// out[i] = first base^i, i < count <= 128.
KERNEL(128)
fr_first_powers(Quad* out, uint32_t count, uint64_t f0, uint64_t f1, uint64_t f2, uint64_t f3,
                uint64_t b0, uint64_t b1, uint64_t b2, uint64_t b3) {
    const uint32_t i = threadIdx.x;
    if (i >= count) return;
    const Fr first = element_of(f0, f1, f2, f3);
    store_element(out, i, times_power(first, element_of(b0, b1, b2, b3), i));
}
EXPORT_KERNEL(fr_first_powers);

// out[i] = b^i, out[128 + i] = c^i, i < 128: the weights of fr_evaluate.
KERNEL(128)
fr_evaluation_weights(Quad* out, uint64_t b0, uint64_t b1, uint64_t b2, uint64_t b3, uint64_t c0,
               uint64_t c1, uint64_t c2, uint64_t c3) {
    const Fr base = blockIdx.x == 0 ? element_of(b0, b1, b2, b3) : element_of(c0, c1, c2, c3);
    store_element(out, thread_number(), times_power(Fr::one(), base, threadIdx.x));
}
EXPORT_KERNEL(fr_evaluation_weights);

// out[i + k have] = out[i] w^k for i < have, 0 < k < each, below `count`.
KERNEL(128)
fr_extend_powers(Quad* out, uint64_t have, uint64_t count, uint32_t each, uint64_t w0, uint64_t w1,
          uint64_t w2, uint64_t w3, uint64_t w4, uint64_t w5, uint64_t w6, uint64_t w7) {
    const Fr multiples[2] = {element_of(w0, w1, w2, w3), element_of(w4, w5, w6, w7)};
    uint64_t i = thread_number();
    if (i >= have) return;
    Fr power = load_element(out, i);
#pragma unroll 1
    for (uint32_t k = 1; k < each; k++) {
        i += have;
        if (i >= count) return;
        power = mul_constant<2>(power, PrecomputedMultiples{multiples});
        store_element(out, i, reduced(power));
    }
}
EXPORT_KERNEL(fr_extend_powers);
