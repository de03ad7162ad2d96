// Throughput of the field arithmetic alone.
//
// Each thread works on a chain of its own in registers: element t of `in` is where thread t starts
// and element t + threads its second factor; the end of the chain goes to out[t], so nothing can be
// left out. `in` holds 2 elements a thread, canonical (fr_mul_constant: 1, and 8 more at its end).
//
// Launch: blocks of 128 threads, as many on each multiprocessor as fit (try 2, 4, 6 and 8), so that
// they all run at once. A thread does PER_ITERATION operations an iteration: rate = grid x 128 x
// PER_ITERATION x iterations / time. bench_fp_inverse: one operation an iteration.
#include "../inverse.cuh"
#include "variants.cuh"

constexpr int PER_ITERATION = 4;

template <class F, class Step>
FN void run_chain(const F* in, F* out, uint32_t iterations, const Step& step) {
    const size_t t = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    F x = in[t];
#pragma unroll 1
    for (uint32_t i = 0; i < iterations; i++) {
#pragma unroll
        for (int j = 0; j < PER_ITERATION; j++) x = step(x);
    }
    out[t] = x;
}
template <class F> FN F second_factor(const F* in) {
    return in[size_t(gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x];
}

KERNEL(128, 4) bench_fp_mul(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return mul(x, y); });
}
EXPORT_KERNEL(bench_fp_mul);

KERNEL(128, 4) bench_fp_mul_limb(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return mul_limb(x, y); });
}
EXPORT_KERNEL(bench_fp_mul_limb);

KERNEL(128, 4) bench_fp_mul_plain(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return mul_plain(x, y); });
}
EXPORT_KERNEL(bench_fp_mul_plain);

KERNEL(128, 4) bench_fp_mul_apart(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return reduce(product(x, y)); });
}
EXPORT_KERNEL(bench_fp_mul_apart);

KERNEL(128, 4) bench_fp_mul_karatsuba(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return reduce(product_karatsuba(x, y)); });
}
EXPORT_KERNEL(bench_fp_mul_karatsuba);

KERNEL(128, 4) bench_fp_sqr(const Fp* in, Fp* out, uint32_t iterations) {
    run_chain(in, out, iterations, [](const Fp& x) { return sqr(x); });
}
EXPORT_KERNEL(bench_fp_sqr);

// x y + y x: one operation is a sum of two products.
KERNEL(128, 4) bench_fp_mul_add_mul(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return mul_add_mul(x, y, y, x); });
}
EXPORT_KERNEL(bench_fp_mul_add_mul);

KERNEL(128, 4) bench_fp_inverse(const Fp* in, Fp* out, uint32_t iterations) {
    const size_t t = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    Fp x = in[t];
    const Fp y = second_factor(in);
#pragma unroll 1
    for (uint32_t i = 0; i < iterations; i++) x = add(inverse(x), y);
    out[t] = x;
}
EXPORT_KERNEL(bench_fp_inverse);

KERNEL(128, 4) bench_fr_mul(const Fr* in, Fr* out, uint32_t iterations) {
    const Fr y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fr& x) { return mul(x, y); });
}
EXPORT_KERNEL(bench_fr_mul);

// With the step that keeps a square below 2^255.
KERNEL(128, 4) bench_fr_sqr(const Fr* in, Fr* out, uint32_t iterations) {
    run_chain(in, out, iterations, [](const Fr& x) { return sqr(reduce_once<1>(x)); });
}
EXPORT_KERNEL(bench_fr_sqr);

// A factor in registers, K kept multiples, which are the last elements of `in`.
template <int K> FN void run_constant(const Fr* in, Fr* out, uint32_t iterations) {
    Fr multiples[K];
#pragma unroll
    for (int k = 0; k < K; k++) multiples[k] = in[size_t(gridDim.x) * blockDim.x + k];
    run_chain(in, out, iterations,
              [&](const Fr& x) { return mul_constant<K>(x, KeptMultiples{multiples}); });
}
KERNEL(128, 4) bench_fr_mul_constant_k2(const Fr* in, Fr* out, uint32_t iterations) {
    run_constant<2>(in, out, iterations);
}
EXPORT_KERNEL(bench_fr_mul_constant_k2);
KERNEL(128, 4) bench_fr_mul_constant_k4(const Fr* in, Fr* out, uint32_t iterations) {
    run_constant<4>(in, out, iterations);
}
EXPORT_KERNEL(bench_fr_mul_constant_k4);

// A factor that the kernel knows, as the fixed roots of unity of a transform: 8 kept multiples of
// 1/5, 2^(32 (2 + k)) / 5 mod r.
CONSTANT uint32_t FIFTH[8][8] = {
    {0x66666667, 0xffffffff, 0x66656a65, 0x323e959b,
     0x6c2de803, 0x51ef819e, 0x4c2b4b2b, 0x458e9798},
    {0x66666667, 0xffffffff, 0x99989d98, 0x323e959b,
     0x6c2de803, 0x51ef819e, 0x4c2b4b2b, 0x458e9798},
    {0x66666667, 0xffffffff, 0x99989d98, 0x6571c8ce,
     0x6c2de803, 0x51ef819e, 0x4c2b4b2b, 0x458e9798},
    {0x66666667, 0xffffffff, 0x99989d98, 0x6571c8ce,
     0x9f611b36, 0x51ef819e, 0x4c2b4b2b, 0x458e9798},
    {0x66666667, 0xffffffff, 0x99989d98, 0x6571c8ce,
     0x9f611b36, 0x8522b4d1, 0x4c2b4b2b, 0x458e9798},
    {0x66666667, 0xffffffff, 0x99989d98, 0x6571c8ce,
     0x9f611b36, 0x8522b4d1, 0x7f5e7e5e, 0x458e9798},
    {0x66666666, 0x00000000, 0x999a419a, 0x11b424cb,
     0x95bf4331, 0x51e8dcc9, 0x55c10116, 0x04d42378},
    {0xf556489e, 0x71101dc7, 0x7b867f62, 0x96c864f2,
     0xdf89f34b, 0xb27e22f2, 0x486636e7, 0x5ca3e0a4},
};
struct Fifth {
    FN uint32_t operator()(int k, int j) const { return FIFTH[k][j]; }
};
KERNEL(128, 4) bench_fr_mul_constant_k8(const Fr* in, Fr* out, uint32_t iterations) {
    run_chain(in, out, iterations, [](const Fr& x) { return mul_constant<8>(x, Fifth{}); });
}
EXPORT_KERNEL(bench_fr_mul_constant_k8);
