// Inverses and products with a constant, for the tests against arkworks.
//
// Launch: one-dimensional grid, blocks of at most 128 threads. Elements are in Montgomery form,
// outputs canonical.
#include "field2.cuh"
#include "inverse_split.cuh"

// out[i] = a[i] w, given `count` = 1, 2, 4 or 8 precomputed multiples W_k of w (field/fr.cuh).
KERNEL(128)
test_fr_constant(uint32_t count, uint32_t n, const Fr* a, const Fr* multiples, Fr* out) {
    const uint32_t threads = gridDim.x * blockDim.x;
    const PrecomputedMultiples w = {multiples};
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        Fr r = zero<Fr>();
        if (count == 1) r = mul_constant<1>(a[i], w);
        if (count == 2) r = mul_constant<2>(a[i], w);
        if (count == 4) r = mul_constant<4>(a[i], w);
        if (count == 8) r = mul_constant<8>(a[i], w);
        out[i] = canonical(r);
    }
}
EXPORT_KERNEL(test_fr_constant);

// Inverts n elements in place, with n of scratch; thread t of T inverts t, t + T, ... as a batch.
template <class F> FN void invert_batches(uint32_t n, F* values, F* scratch) {
    const uint32_t threads = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) inverse_batch(values + t, scratch + t, (n - t - 1) / threads + 1, threads);
}
KERNEL(128) test_inverse_batch_fp(uint32_t n, Fp* values, Fp* scratch) {
    invert_batches(n, values, scratch);
}
EXPORT_KERNEL(test_inverse_batch_fp);
KERNEL(128) test_inverse_batch_fp2(uint32_t n, Fp2* values, Fp2* scratch) {
    invert_batches(n, values, scratch);
}
EXPORT_KERNEL(test_inverse_batch_fp2);
KERNEL(128) test_inverse_batch_fr(uint32_t n, Fr* values, Fr* scratch) {
    invert_batches(n, values, scratch);
}
EXPORT_KERNEL(test_inverse_batch_fr);

// Inverts n elements in place, four lanes per element.
template <class F> FN void invert_split(uint32_t n, F* values) {
    const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / GCD_LANES;
    const F inverted = inverse_split(i < n ? values[i] : one<F>());
    if (i < n && lane_index() % GCD_LANES == 3) values[i] = inverted;
}
KERNEL(128) test_inverse_split_fp(uint32_t n, Fp* values) { invert_split(n, values); }
EXPORT_KERNEL(test_inverse_split_fp);
KERNEL(128) test_inverse_split_fp2(uint32_t n, Fp2* values) { invert_split(n, values); }
EXPORT_KERNEL(test_inverse_split_fp2);
