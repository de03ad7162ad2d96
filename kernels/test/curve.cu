// Predicates and batched sums of points, for the tests against arkworks.
//
// Kernels *_predicates: flags[i] = bit 0: a[i] is on the curve; bit 1: a[i] passes the subgroup
// test, meaningful only for points on the curve; bit 2: a[i] is infinity.
//
// Kernels *_batch_affine: out[i] = the sum of the two table points that pairs[i] refers to, in
// chains of `chain` sums per inversion (batch_affine.cuh); y is loose. Dynamic shared memory 64 x
// 240 bytes (G2 480), scratch 48 x chain bytes per thread (G2 96).
//
// Points are x, y in Montgomery form; infinity is zeros. Blocks of 64, any grid; no barriers.
#define CURVE_CALLS_FP
#include "batch_affine.cuh"

template <class F> FN void predicates(uint32_t* flags, const Affine<F>* a, uint32_t n) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        const Affine<F> p = load_affine(a + i);
        SubgroupTest<F> test;
        const bool inside = in_subgroup(test, [&] { return p; });
        flags[i] = on_curve(p) | inside << 1 | is_infinity(p) << 2;
    }
}
KERNEL(64) g1_test_predicates(uint32_t* flags, const Affine<Fp>* a, uint32_t n) {
    predicates(flags, a, n);
}
EXPORT_KERNEL(g1_test_predicates);

KERNEL(64) g2_test_predicates(uint32_t* flags, const Affine<Fp2>* a, uint32_t n) {
    predicates(flags, a, n);
}
EXPORT_KERNEL(g2_test_predicates);

template <class F>
FN void add_pairs(Affine<F>* out, Quad* scratch, Quad* stage, const Affine<F>* table,
                  const Pair* pairs, uint32_t n, uint32_t chain) {
    const Summands<F> summands = {table, pairs};
    add_batched<F, false, 64>(out, scratch, stage, summands, n, chain);
}
KERNEL(64)
g1_test_batch_affine(Affine<Fp>* out, Quad* scratch, const Affine<Fp>* table, const Pair* pairs,
                    uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_pairs(out, scratch, stage, table, pairs, n, chain);
}
EXPORT_KERNEL(g1_test_batch_affine);

KERNEL(64)
g2_test_batch_affine(Affine<Fp2>* out, Quad* scratch, const Affine<Fp2>* table,
                         const Pair* pairs,
                    uint32_t n, uint32_t chain) {
    DYNAMIC_SHARED(Quad, stage);
    add_pairs(out, scratch, stage, table, pairs, n, chain);
}
EXPORT_KERNEL(g2_test_batch_affine);
