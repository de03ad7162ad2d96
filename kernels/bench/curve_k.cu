#define CURVE_KARATSUBA
#define FP2_PRODUCT product_karatsuba
#include "../accumulate.cuh"
#include "../batch_affine.cuh"
#define SEQUENTIAL(name, F, threads) \
    KERNEL(threads, 1) \
    name(Affine<F>* out, Quad* scratch, const Affine<F>* a, const Affine<F>* b, \
         uint32_t b_stride, uint32_t n, uint32_t chain) { \
        DYNAMIC_SHARED(Quad, stage); \
        const Sequential<F> source = {a, b, b_stride}; \
        add_batched<F, false, threads>(out, scratch, stage, source, n, chain); \
    } \
    EXPORT_KERNEL(name);

SEQUENTIAL(g1_add_sequential_512_k, Fp, 512)
SEQUENTIAL(g2_add_sequential_k, Fp2, 256)
#define XYZZ(name, F, threads, blocks, sum) \
    KERNEL(threads, blocks) \
    name(Xyzz<F>* out, const Affine<F>* table, const uint32_t* references, uint32_t buckets, \
         uint32_t size) { \
        DYNAMIC_SHARED(Quad, stage); \
        const auto start = sum<F, threads>(stage); \
        accumulate_buckets<threads>(out, stage, start, table, references, buckets, size); \
    } \
    EXPORT_KERNEL(name);

XYZZ(g1_xyzz_128_2_k, Fp, 128, 2, sum_in_registers)
XYZZ(g1_xyzz_384_1s_k, Fp, 384, 1, sum_in_shared)
XYZZ(g2_xyzz_256_1_k, Fp2, 256, 1, sum_in_shared)
