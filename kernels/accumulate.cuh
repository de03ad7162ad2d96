// XYZZ accumulation: buckets of points of a table, summed one by one.
//
// A thread sums one bucket after the other. The next point travels to the thread's columns of
// shared memory while this one is added, and each coordinate is read from there where a product
// needs it, so that no register holds a point.
//
// Launch: blocks of T, any grid; dynamic shared memory of 2 QUADS<F> pieces a thread, or 8 QUADS<F>
// where the sum is kept there too. Barriers: none.
#pragma once
#include "batch/source.cuh"

template <class F, uint32_t T> FN Making<F> sum_in_registers(Quad*) {
    return {};
}
// For Fp2, whose sums and products do not fit in registers together.
template <class F, uint32_t T> FN Making<F, Column<F, T>> sum_in_shared(Quad* shared) {
    return {column<F, T>(shared, 2), column<F, T>(shared, 3), column<F, T>(shared, 4),
            column<F, T>(shared, 5), column<F, T>(shared, 6), column<F, T>(shared, 7)};
}

// out[b] = the sum of the points references[b size + k], 0 <= k < size, size > 0, of the table,
// with signs as in batch/source.cuh. y of the table loose.
template <uint32_t T, class F, class Cell>
FN void accumulate_buckets(Xyzz<F>* out, Quad* shared, Making<F, Cell> sum, const Affine<F>* table,
                           const uint32_t* references, uint32_t buckets, uint32_t size) {
    const auto x = column<F, T>(shared, 0), y = column<F, T>(shared, 1);
    const uint32_t threads = gridDim.x * blockDim.x;
    const auto travel = [&](uint32_t reference) {
        const Affine<F>* const p = table + (reference & ~SIGN);
        x.fetch_from(&p->x);
        y.fetch_from(&p->y);
        copies_commit();
    };
    for (uint32_t b = blockIdx.x * blockDim.x + threadIdx.x; b < buckets; b += threads) {
        const uint32_t* const mine = references + uint64_t(b) * size;
        sum.zz = zero<F>();
        uint32_t now = mine[0], next = mine[size > 1 ? 1 : 0];
        travel(now);
#pragma unroll 1
        for (uint32_t k = 0; k < size; k++) {
            copies_wait<0>();
            accumulate_from(sum, [&] { return F(x); }, [&] { return with_sign(F(y), now); },
                            [&] {
                                   now = next;
                                   if (k + 1 < size) travel(now);
                                   if (k + 2 < size) next = mine[k + 2];
                               });
        }
        store(&out[b].x, F(sum.x));
        store(&out[b].y, F(sum.y));
        store(&out[b].zz, F(sum.zz));
        store(&out[b].zzz, F(sum.zzz));
    }
}
