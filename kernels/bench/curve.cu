#include "../accumulate.cuh"
#include "../batch_affine.cuh"

KERNEL(384, 1)
g1_add_sequential(Affine<Fp>* out, Quad* scratch, const Affine<Fp>* a, const Affine<Fp>* b,
                  uint32_t b_stride, uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_batched<Fp, false, 384>(out, scratch, stage, Sequential<Fp>{a, b, b_stride}, n, chain);
}
EXPORT_KERNEL(g1_add_sequential);

KERNEL(384, 1)
g1_add_gathered(Affine<Fp>* out, Quad* scratch, const char* x, const char* y, const Pair* pairs,
                uint32_t stride, uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_batched<Fp, false, 384>(out, scratch, stage, Gathered<Fp>{x, y, pairs, stride}, n, chain);
}
EXPORT_KERNEL(g1_add_gathered);

KERNEL(384, 1)
g1_add_gathered_once(Affine<Fp>* out, Quad* scratch, const char* x, const char* y,
                     const Pair* pairs, uint32_t stride, uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_batched<Fp, true, 384>(out, scratch, stage, Gathered<Fp>{x, y, pairs, stride}, n, chain);
}
EXPORT_KERNEL(g1_add_gathered_once);

KERNEL(256, 1)
g2_add_sequential(Affine<Fp2>* out, Quad* scratch, const Affine<Fp2>* a, const Affine<Fp2>* b,
                  uint32_t b_stride, uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_batched<Fp2, false, 256>(out, scratch, stage, Sequential<Fp2>{a, b, b_stride}, n, chain);
}
EXPORT_KERNEL(g2_add_sequential);

#define XYZZ(name, F, threads, blocks, sum) \
    KERNEL(threads, blocks) \
    name(Xyzz<F>* out, const Affine<F>* table, const uint32_t* references, uint32_t buckets, \
         uint32_t size) { \
        DYNAMIC_SHARED(Quad, stage); \
        accumulate_buckets<threads>(out, stage, sum<F, threads>(stage), table, references, buckets, size); \
    } \
    EXPORT_KERNEL(name);
XYZZ(g1_xyzz_128_2, Fp, 128, 2, sum_in_registers)
XYZZ(g1_xyzz_256_1, Fp, 256, 1, sum_in_registers)
XYZZ(g1_xyzz_384_1, Fp, 384, 1, sum_in_registers)
XYZZ(g1_xyzz_384_1s, Fp, 384, 1, sum_in_shared)
XYZZ(g1_xyzz_512_1s, Fp, 512, 1, sum_in_shared)
XYZZ(g2_xyzz_256_1, Fp2, 256, 1, sum_in_shared)
XYZZ(g2_xyzz_384_1, Fp2, 384, 1, sum_in_shared)
