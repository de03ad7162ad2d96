// g2_add_sequential of curve.cu with Fp2's product from ../field2_dot.cuh, to be measured.
#define FP2_DOT
#include "../batch_affine.cuh"

KERNEL(256, 1)
g2_add_sequential_a(Affine<Fp2>* out, Quad* scratch, const Affine<Fp2>* a, const Affine<Fp2>* b,
                    uint32_t b_stride, uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    const Sequential<Fp2> source = {a, b, b_stride};
    add_batched<Fp2, false, 256>(out, scratch, stage, source, n, chain);
}
EXPORT_KERNEL(g2_add_sequential_a);
