// Throughput of the field arithmetic.
//
// Each thread computes its own chain in registers, from element t of `in`, with element t + threads
// as second factor. It stores the end of the chain in out[t], so that nothing is optimised away.
// `in` holds 2 canonical elements per thread (fr_mul_constant: 1, followed by 8 multiples).
//
// Launch: blocks of 128 threads, all resident at once (try 2, 4, 6 and 8 per multiprocessor). A
// thread does PER_ITERATION operations per iteration: rate = grid x 128 x PER_ITERATION x
// iterations / time. bench_fp_inverse: one operation per iteration.
#include "../field/karatsuba.cuh"
#include "../inverse.cuh"

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

KERNEL(128, 4) bench_fp_mul_karatsuba(const Fp* in, Fp* out, uint32_t iterations) {
    const Fp y = second_factor(in);
    run_chain(in, out, iterations, [&](const Fp& x) { return mul_karatsuba(x, y); });
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

// Includes the reduction that keeps a square below 2^255.
KERNEL(128, 4) bench_fr_sqr(const Fr* in, Fr* out, uint32_t iterations) {
    run_chain(in, out, iterations, [](const Fr& x) { return sqr(reduce_once<1>(x)); });
}
EXPORT_KERNEL(bench_fr_sqr);

// A factor in registers, given by K precomputed multiples, the last elements of `in`.
template <int K> FN void run_constant(const Fr* in, Fr* out, uint32_t iterations) {
    Fr multiples[K];
#pragma unroll
    for (int k = 0; k < K; k++) multiples[k] = in[size_t(gridDim.x) * blockDim.x + k];
    run_chain(in, out, iterations,
              [&](const Fr& x) { return mul_constant<K>(x, PrecomputedMultiples{multiples}); });
}
KERNEL(128, 4) bench_fr_mul_constant_k2(const Fr* in, Fr* out, uint32_t iterations) {
    run_constant<2>(in, out, iterations);
}
EXPORT_KERNEL(bench_fr_mul_constant_k2);
KERNEL(128, 4) bench_fr_mul_constant_k4(const Fr* in, Fr* out, uint32_t iterations) {
    run_constant<4>(in, out, iterations);
}
EXPORT_KERNEL(bench_fr_mul_constant_k4);

// A factor known at compile time, like a transform's fixed roots: 8 precomputed multiples of the
// root of unity w = 7^((r - 1) / 16), 2^(32 (2 + k)) w mod r.
CONSTANT uint32_t ROOT_16[8][8] = {
    {0xaf7204c7, 0x085b43bc, 0x002cf383, 0xf67597d3,
     0x786b9a76, 0x6d35b395, 0x5868005b, 0x60fa8b1c},
    {0x29d88444, 0x85998082, 0xa5832f79, 0xe4a76fa8,
     0xc4001bae, 0x6dde55b2, 0xc189d98c, 0x04072c91},
    {0xf71ae60d, 0x32bd9e36, 0x6d114675, 0xd4cd4438,
     0x8a8d07a8, 0xfe819696, 0x38f4bbaa, 0x3aebc0c0},
    {0x7de323a5, 0x7937c267, 0x0e5fc692, 0x39623adc,
     0xfd857055, 0xe991171f, 0x7df307de, 0x3f74427f},
    {0x73e06ffe, 0x0a02b3a6, 0xcd9a9a6a, 0x3a46b470,
     0x0a2ab20e, 0x7f4f8e1e, 0x581ba999, 0x2a24c73a},
    {0xa2ef904a, 0xd0f0dfb3, 0x5e59bb5c, 0xb37b4bf7,
     0xc4cbb0e8, 0x1e5f3a92, 0x90e6f77b, 0x3648d513},
    {0x88202b65, 0x1acf64e4, 0x819f004f, 0x5b18b637,
     0x3107fdf5, 0xee649cab, 0xce9012a0, 0x27a8543d},
    {0xa86d0268, 0xdfb328fc, 0x9a6fc27c, 0xcf393734,
     0xae03fa66, 0xac5448f3, 0x977bffc4, 0x6a8547ba},
};
struct SixteenthRoot {
    FN uint32_t operator()(int k, int j) const { return ROOT_16[k][j]; }
};
KERNEL(128, 4) bench_fr_mul_constant_k8(const Fr* in, Fr* out, uint32_t iterations) {
    run_chain(in, out, iterations, [](const Fr& x) { return mul_constant<8>(x, SixteenthRoot{}); });
}
EXPORT_KERNEL(bench_fr_mul_constant_k8);
