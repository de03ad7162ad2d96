// Elementwise operations on vectors of Fr, which provers need between transforms.
//
// A thread computes one element of `out`; for fr_extend_powers, every `known`-th one. Elements are
// canonical, in Montgomery form. `out` may be any of the inputs: a thread accesses only its own
// positions and reads before it writes. No shared memory, no barriers. Launch: blocks of 128, one
// thread per element (fr_extend_powers: `known` threads; fr_first_powers: one block).
//
// Factors common to all elements are passed by value: in Montgomery form, or as precomputed
// multiples.
#include "multiples.cuh"
#include "passes.cuh"

FN uint64_t thread_number() { return uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
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

#define POINTWISE_OF_THREE(name, result)                                                      \
    KERNEL(128) name(const Quad* a, const Quad* b, const Quad* c, Quad* out, uint64_t count) { \
        const uint64_t i = thread_number();                                                   \
        if (i >= count) return;                                                               \
        const Fr x = load_element(a, i), y = load_element(b, i), z = load_element(c, i);      \
        store_element(out, i, result);                                                        \
    }                                                                                         \
    EXPORT_KERNEL(name)

POINTWISE_OF_THREE(fr_multiply_add, add(reduced(mul(x, y)), z));
POINTWISE_OF_THREE(fr_multiply_subtract, sub(reduced(mul(x, y)), z));

// Copies rows of `length` elements, `count` elements in all, between matrices whose rows begin
// `from_stride` and `to_stride` elements apart. `to` does not overlap `from`.
KERNEL(128)
fr_copy_rows(const Quad* from, Quad* to, uint64_t length, uint64_t from_stride, uint64_t to_stride,
             uint64_t count) {
    const uint64_t i = thread_number();
    if (i >= count) return;
    const uint64_t row = i / length, column = i - row * length;
    store_element(to, row * to_stride + column, load_element(from, row * from_stride + column));
}
EXPORT_KERNEL(fr_copy_rows);

// out[i] = a[i] w.
KERNEL(128)
fr_scale(const Quad* a, Quad* out, uint64_t count, const FactorMultiples w) {
    const uint64_t i = thread_number();
    if (i >= count) return;
    store_element(out, i, reduced(w.times(load_element(a, i))));
}
EXPORT_KERNEL(fr_scale);

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
fr_first_powers(Quad* out, uint32_t count, const Fr first, const Fr base) {
    const uint32_t i = threadIdx.x;
    if (i >= count) return;
    store_element(out, i, times_power(first, base, i));
}
EXPORT_KERNEL(fr_first_powers);

// out[i] = b^i, out[128 + i] = c^i, i < 128: the weights of fr_evaluate.
KERNEL(128)
fr_evaluation_weights(Quad* out, const Fr b, const Fr c) {
    const Fr base = blockIdx.x == 0 ? b : c;
    store_element(out, thread_number(), times_power(Fr::one(), base, threadIdx.x));
}
EXPORT_KERNEL(fr_evaluation_weights);

// out[i + k known] = out[i] w^k for i < known, 0 < k < powers_per_thread, below `count`.
KERNEL(128)
fr_extend_powers(Quad* out, uint64_t known, uint64_t count, uint32_t powers_per_thread,
                 const FactorMultiples w) {
    uint64_t i = thread_number();
    if (i >= known) return;
    Fr power = load_element(out, i);
#pragma unroll 1
    for (uint32_t k = 1; k < powers_per_thread; k++) {
        i += known;
        if (i >= count) return;
        power = w.times(power);
        store_element(out, i, reduced(power));
    }
}
EXPORT_KERNEL(fr_extend_powers);
