// Sums and prefix sums of blocks, and broadcasts in warps, for the tests.
//
// Launch: one-dimensional grid, blocks of at most 256 threads, whole warps.
#include "field/fr.cuh"
#include "warp.cuh"

struct AddElements {
    FN Fr operator()(const Fr& a, const Fr& b) const { return add(a, b); }
};
// scans[i]: sum of the values below i in i's block; sums[b]: sum over block b; totals[i]: the total
// that thread i received. The grid has exactly one thread per element.
template <class T, class Op>
FN void sum_blocks(const T* values, T* sums, T* scans, T* totals, const T& identity, Op op) {
    SHARED(T, partials, 32);
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const T sum = block_reduce(values[i], identity, partials, op);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    __syncthreads();
    T total;
    scans[i] = block_scan(values[i], identity, partials, total, op);
    totals[i] = total;
}
KERNEL(256)
test_block_words(const uint32_t* values, uint32_t* sums, uint32_t* scans, uint32_t* totals) {
    sum_blocks(values, sums, scans, totals, 0u, AddWords{});
}
EXPORT_KERNEL(test_block_words);
KERNEL(256) test_block_fr(const Fr* values, Fr* sums, Fr* scans, Fr* totals) {
    sum_blocks(values, sums, scans, totals, zero<Fr>(), AddElements{});
}
EXPORT_KERNEL(test_block_fr);

// out[i] = the value of lane `from` of element i's warp. Whole warps only.
KERNEL(256) test_broadcast(uint32_t from, const Fr* values, Fr* out) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = broadcast(values[i], from);
}
EXPORT_KERNEL(test_broadcast);
