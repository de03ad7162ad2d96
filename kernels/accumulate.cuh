// XYZZ bucket accumulation: sums the points of each bucket one by one.
//
// A thread sums one bucket after the other. While it adds a point, the next one is copied to the
// thread's columns of shared memory. Products read coordinates there, so no register holds a point.
//
// Launch: blocks of THREADS, any grid; dynamic shared memory of 2 QUADS<F> pieces per thread, or 6
// QUADS<F> if the sum is also in shared memory. Barriers: none.
#pragma once
#include "batch/summands.cuh"

// A partial sum, and the columns that receive the coordinates of its next summand.
template <class F, uint32_t THREADS, class Cell> struct BucketAccumulator {
    XyzzAccumulator<F, Cell> sum;
    SharedColumn<F, THREADS> x, y;
};
template <class F, uint32_t THREADS>
FN BucketAccumulator<F, THREADS, F> sum_in_registers(Quad* shared) {
    return {{}, column<F, THREADS>(shared, 0), column<F, THREADS>(shared, 1)};
}
// For Fp2, whose sums and products do not fit in registers together. The next summand is stored in
// the columns of q and r.
template <class F, uint32_t THREADS>
FN BucketAccumulator<F, THREADS, SharedColumn<F, THREADS>> sum_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, THREADS>(shared, k); };
    return {{at(0), at(1), at(2), at(3), at(4), at(5)}, at(5), at(4)};
}
// Whether the summand has its own columns.
template <class F, class Cell> constexpr bool HAS_SUMMAND_COLUMNS = false;
template <class F> constexpr bool HAS_SUMMAND_COLUMNS<F, F> = true;

// Sets bucket.sum to the sum of `size` > 0 points of the table, selected by `references` (encoded
// as in batch/summands.cuh). y of the table is loose.
template <class F, uint32_t THREADS, class Cell>
FN void accumulate_bucket(BucketAccumulator<F, THREADS, Cell>& bucket, const Affine<F>* table,
                          const uint32_t* references, uint32_t size) {
    XyzzAccumulator<F, Cell>& sum = bucket.sum;
    const auto fetch_point = [&](uint32_t reference) {
        const Affine<F>* const p = table + (reference & ~SIGN);
        bucket.x.fetch_from(&p->x);
        bucket.y.fetch_from(&p->y);
        copies_commit();
    };
    sum.zz = zero<F>();
    uint32_t now = references[0], next = references[size > 1 ? 1 : 0];
    fetch_point(now);
#pragma unroll 1
    for (uint32_t k = 0; k < size; k++) {
        const auto fetch_next = [&] {
            now = next;
            if (k + 1 < size) fetch_point(now);
            if (k + 2 < size) next = references[k + 2];
        };
        const auto on_point_read = [&] {
            if constexpr (HAS_SUMMAND_COLUMNS<F, Cell>) fetch_next();
        };
        const auto on_cells_free = [&] {
            if constexpr (!HAS_SUMMAND_COLUMNS<F, Cell>) fetch_next();
        };
        copies_wait<0>();
        accumulate_from(
            sum, [&] { return F(bucket.x); }, [&] { return with_sign(F(bucket.y), now); },
            on_point_read, on_cells_free);
    }
}
template <class F, class Cell> FN void store_sum(Xyzz<F>* to, const XyzzAccumulator<F, Cell>& s) {
    store(&to->x, F(s.x));
    store(&to->y, F(s.y));
    store(&to->zz, F(s.zz));
    store(&to->zzz, F(s.zzz));
}
// out[b] = the sum of the points references[b size + k], 0 <= k < size.
template <class F, uint32_t THREADS, class Cell>
FN void accumulate_buckets(Xyzz<F>* out, BucketAccumulator<F, THREADS, Cell> bucket,
                           const Affine<F>* table, const uint32_t* references, uint32_t buckets,
                           uint32_t size) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t b = blockIdx.x * blockDim.x + threadIdx.x; b < buckets; b += threads) {
        accumulate_bucket(bucket, table, references + uint64_t(b) * size, size);
        store_sum(&out[b], bucket.sum);
    }
}
