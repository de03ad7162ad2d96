// Writes all buckets in XYZZ form, as the tail computes them, which avoids an inversion.
#pragma once
#include "team_sums.cuh"

// Four lanes per bucket, one coordinate each.
template <class F>
FN void write_xyzz_buckets(Xyzz<F>* out, const Affine<F>* base, const Xyzz<F>* tail_sums,
                           const BucketTree& tree) {
    const uint32_t groups = gridDim.x * (blockDim.x / SPLIT_LANES), run = tree.levels->count;
    uint32_t b = (blockIdx.x * blockDim.x + threadIdx.x) / SPLIT_LANES;
    for (; b < tree.buckets.count; b += groups) {
        const uint32_t size = tree.buckets.size(b), left = remaining_of(size, run);
        F sum = zero<F>();
        if (left == 1) sum = load_split_signed(base, tree.element(b, size, run, 0));
        if (left > 1) sum = load_split(&tail_sums[tree.tail()[b] / 2]);
        store_split(out + b, sum);
    }
}
