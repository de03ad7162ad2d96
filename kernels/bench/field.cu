#include "variants.cuh"
template <class F, class Step> FN void chain(const F* in, F* out, uint32_t iterations, Step step) {
    const size_t t = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    F x = in[t];
    const F y = in[t + size_t(gridDim.x) * blockDim.x];
#pragma unroll 1
    for (uint32_t i = 0; i < iterations; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) x = step(x, y);
    }
    out[t] = x;
}
#define BENCH(F, name, expression)                                                   \
    KERNEL(128, 4) name(const F* in, F* out, uint32_t iterations) {                  \
        chain(in, out, iterations, [](const F& x, const F& y) { (void)y; return expression; }); \
    }                                                                                \
    EXPORT_KERNEL(name);
BENCH(Fp, bench_fp_mul, mul(x, y))
BENCH(Fp, bench_fp_mul_plain, mul_plain(x, y))
BENCH(Fp, bench_fp_mul_limb, mul_limb(x, y))
BENCH(Fp, bench_fp_mul_add_mul, mul_add_mul(x, y, y, x))
BENCH(Fp, bench_fp_mul_apart, reduce(product(x, y)))
BENCH(Fp, bench_fp_mul_karatsuba, reduce(product_karatsuba(x, y)))
BENCH(Fp, bench_fp_sqr, sqr(x))
BENCH(Fr, bench_fr_mul, mul(x, y))
template <int K> FN Fr kept(const Fr& x, const Fr* w) { return mul_constant<K>(x, KeptMultiples{w}); }
#define BENCHK(K, name)  KERNEL(128, 4) name(const Fr* in, Fr* out, uint32_t iterations) { \
        Fr w[K]; \
        for (int k = 0; k < K; k++) w[k] = in[k]; \
        chain(in + 8, out, iterations, [&](const Fr& x, const Fr&) { return mul_constant<K>(x, KeptMultiples{w}); }); \
    } EXPORT_KERNEL(name);
BENCHK(2, bench_k2)
BENCHK(4, bench_k4)
BENCHK(8, bench_k8)
BENCH(Fr, bench_fr_sqr, sqr(reduce_once<1>(x)))
