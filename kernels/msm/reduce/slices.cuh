// Sums slices of rows and columns in XYZZ, one per thread: for more points than lanes.
#pragma once
#include "../../accumulate.cuh"
#include "rows_columns.cuh"

template <class F> FN Xyzz<F> load_xyzz(const Xyzz<F>* p) {
    return {load<F>(&p->x), load<F>(&p->y), load<F>(&p->zz), load<F>(&p->zzz)};
}

// out[s] = the sum of slice s of the buckets. The next point is fetched during the addition, as in
// accumulate_buckets.
template <class F, uint32_t THREADS, class Cell>
FN void sum_slices(Xyzz<F>* out, BucketAccumulator<F, THREADS, Cell> bucket,
                   const Affine<F>* points, const BucketMatrix& matrix) {
    const uint32_t s = blockIdx.x * THREADS + threadIdx.x;
    if (s >= matrix.slices()) return;
    const Slice slice = slice_of(matrix, s);
    XyzzAccumulator<F, Cell>& sum = bucket.sum;
    const Affine<F>* next = points + slice.first;
    const auto fetch_point = [&] {
        bucket.x.fetch_from(&next->x);
        bucket.y.fetch_from(&next->y);
        copies_commit();
        next += slice.stride;
    };
    sum.x = zero<F>(), sum.y = zero<F>(), sum.zz = zero<F>(), sum.zzz = zero<F>();
    if (slice.count > 0) fetch_point();
#pragma unroll 1
    for (uint32_t left = slice.count; left > 0; left--) {
        const auto on_point_read = [&] {
            if constexpr (HAS_SUMMAND_COLUMNS<F, Cell>) {
                if (left > 1) fetch_point();
            }
        };
        const auto on_cells_free = [&] {
            if constexpr (!HAS_SUMMAND_COLUMNS<F, Cell>) {
                if (left > 1) fetch_point();
            }
        };
        copies_wait<0>();
        accumulate_from(
            sum, [&] { return F(bucket.x); }, [&] { return F(bucket.y); }, on_point_read,
            on_cells_free);
    }
    store(&out[s].x, F(sum.x));
    store(&out[s].y, F(sum.y));
    store(&out[s].zz, F(sum.zz));
    store(&out[s].zzz, F(sum.zzz));
}
// Like sum_slices, for few points in XYZZ coordinates.
template <class F>
FN void sum_slices_xyzz(Xyzz<F>* out, const Xyzz<F>* points, const BucketMatrix& matrix) {
    const uint32_t s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= matrix.slices()) return;
    const Slice slice = slice_of(matrix, s);
    const Xyzz<F>* next = points + slice.first;
    Xyzz<F> sum = {zero<F>(), zero<F>(), zero<F>(), zero<F>()};
    if (slice.count > 0) sum = load_xyzz(next);
#pragma unroll 1
    for (uint32_t left = slice.count; left > 1; left--) {
        next += slice.stride;
        sum = add(sum, load_xyzz(next));
    }
    store(&out[s].x, sum.x), store(&out[s].y, sum.y);
    store(&out[s].zz, sum.zz), store(&out[s].zzz, sum.zzz);
}
