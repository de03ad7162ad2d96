// XYZZ bucket accumulation: sums the points of each bucket one by one.
//
// A thread sums one bucket after the other. While it adds a point, the next one is copied to the
// thread's columns of shared memory. Products read coordinates there, so no register holds a point.
//
// Launch: blocks of T, any grid; dynamic shared memory of 2 QUADS<F> pieces per thread, or 6
// QUADS<F> if the sum is also in shared memory. Barriers: none.
#pragma once
#include "batch/summands.cuh"

// A partial sum, and the columns that receive the coordinates of its next summand.
template <class F, uint32_t T, class Cell> struct Bucket {
    Making<F, Cell> sum;
    Column<F, T> x, y;
};
template <class F, uint32_t T> FN Bucket<F, T, F> sum_in_registers(Quad* shared) {
    return {{}, column<F, T>(shared, 0), column<F, T>(shared, 1)};
}
// For Fp2, whose sums and products do not fit in registers together. The next summand is stored in
// the columns of q and r.
template <class F, uint32_t T> FN Bucket<F, T, Column<F, T>> sum_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, T>(shared, k); };
    return {{at(0), at(1), at(2), at(3), at(4), at(5)}, at(5), at(4)};
}
// Whether the summand has its own columns.
template <class F, class Cell> constexpr bool APART = false;
template <class F> constexpr bool APART<F, F> = true;

// Sets bucket.sum to the sum of `size` > 0 points of the table, selected by `references` (encoded
// as in batch/summands.cuh). y of the table is loose.
template <class F, uint32_t T, class Cell>
FN void accumulate_bucket(Bucket<F, T, Cell>& bucket, const Affine<F>* table,
                          const uint32_t* references, uint32_t size) {
    Making<F, Cell>& sum = bucket.sum;
    const auto travel = [&](uint32_t reference) {
        const Affine<F>* const p = table + (reference & ~SIGN);
        bucket.x.fetch_from(&p->x);
        bucket.y.fetch_from(&p->y);
        copies_commit();
    };
    sum.zz = zero<F>();
    uint32_t now = references[0], next = references[size > 1 ? 1 : 0];
    travel(now);
#pragma unroll 1
    for (uint32_t k = 0; k < size; k++) {
        const auto send_next = [&] {
            now = next;
            if (k + 1 < size) travel(now);
            if (k + 2 < size) next = references[k + 2];
        };
        const auto read = [&] {
            if constexpr (APART<F, Cell>) send_next();
        };
        const auto waited = [&] {
            if constexpr (!APART<F, Cell>) send_next();
        };
        copies_wait<0>();
        accumulate_from(
            sum, [&] { return F(bucket.x); }, [&] { return with_sign(F(bucket.y), now); }, read,
            waited);
    }
}
template <class F, class Cell> FN void store_sum(Xyzz<F>* to, const Making<F, Cell>& s) {
    store(&to->x, F(s.x));
    store(&to->y, F(s.y));
    store(&to->zz, F(s.zz));
    store(&to->zzz, F(s.zzz));
}
// out[b] = the sum of the points references[b size + k], 0 <= k < size.
template <class F, uint32_t T, class Cell>
FN void accumulate_buckets(Xyzz<F>* out, Bucket<F, T, Cell> bucket, const Affine<F>* table,
                           const uint32_t* references, uint32_t buckets, uint32_t size) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t b = blockIdx.x * blockDim.x + threadIdx.x; b < buckets; b += threads) {
        accumulate_bucket(bucket, table, references + uint64_t(b) * size, size);
        store_sum(&out[b], bucket.sum);
    }
}
