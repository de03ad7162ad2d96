// g2_add_sequential of curve.cu with Fp2's product from ../field2_dot.cuh, to be measured.
// _a has 256 threads a block; _384_a 384, which fit only with 176 bytes of spills.
#define FP2_DOT
#include "../batch_affine.cuh"

#define SEQUENTIAL(name, threads) \
    KERNEL(threads, 1) \
    name(Affine<Fp2>* out, Quad* scratch, const Affine<Fp2>* a, const Affine<Fp2>* b, \
         uint32_t b_stride, uint32_t n, uint32_t chain) { \
        DYNAMIC_SHARED(Quad, stage); \
        const Sequential<Fp2> source = {a, b, b_stride}; \
        add_batched<Fp2, false, threads>(out, scratch, stage, source, n, chain); \
    } \
    EXPORT_KERNEL(name);
SEQUENTIAL(g2_add_sequential_a, 256)
SEQUENTIAL(g2_add_sequential_384_a, 384)
