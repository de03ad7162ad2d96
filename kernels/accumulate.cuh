// XYZZ accumulation: buckets of points of a table, summed one by one.
//
// A thread sums one bucket after the other. The next point travels to the thread's column of
// shared memory while this one is added; x and y are each read from there where a product needs
// them, so that no register holds a point.
#pragma once
#include "batch/source.cuh"

// out[b] = the sum of table[references[b size + k]], 0 <= k < size, signed as batch/source.cuh says.
// Shape: references 16-byte... buckets * size long; y of the table loose.
// Shared memory: 2 QUADS<F> pieces a thread.
template <class F>
FN void accumulate_buckets(Xyzz<F>* out, Quad* shared, const Affine<F>* table,
                           const uint32_t* references, uint32_t buckets, uint32_t size) {
    Quad* const stage = shared + threadIdx.x;
    const uint32_t stride = blockDim.x, threads = gridDim.x * blockDim.x;
    const auto travel = [&](uint32_t reference) {
        const Affine<F>* const p = table + (reference & ~SIGN);
        fetch<F>(stage, stride, &p->x);
        fetch<F>(stage + QUADS<F> * stride, stride, &p->y);
        copies_commit();
    };
    for (uint32_t b = blockIdx.x * blockDim.x + threadIdx.x; b < buckets; b += threads) {
        const uint32_t* const mine = references + uint64_t(b) * size;
        Xyzz<F> sum = xyzz_infinity<F>();
        uint32_t now = mine[0], next = mine[size > 1 ? 1 : 0];
        travel(now);
#pragma unroll 1
        for (uint32_t k = 0; k < size; k++) {
            copies_wait<0>();
            accumulate_from(sum, [&] { return load<F>(stage, stride); },
                              [&] { return with_sign(load<F>(stage + QUADS<F> * stride, stride), now); },
                              [&] {
                                  now = next;
                                  if (k + 1 < size) travel(now);
                                  if (k + 2 < size) next = mine[k + 2];
                              });
        }
        store(&out[b].x, sum.x);
        store(&out[b].y, sum.y);
        store(&out[b].zz, sum.zz);
        store(&out[b].zzz, sum.zzz);
    }
}
