// Copies the buckets whose sum already is a point.
#pragma once
#include "levels.cuh"
#include "../warp.cuh"

constexpr uint32_t COPY_THREADS = 256;

// Copies the negative of a point.
template <class F> FN void copy_negative(Affine<F>* to, const Affine<F>* from) {
    store(&to->x, load<F>(&from->x));
    store(&to->y, canonical(neg_lazy<2>(load<F>(&from->y))));
}
// A warp copies 32 consecutive buckets: each lane finds the point of one, then the lanes copy the
// pieces of all, adjacent lanes adjacent pieces.
template <class F>
FN void copy_buckets(Affine<F>* out, const Affine<F>* base, const BucketTree& tree) {
    constexpr uint32_t PIECES = 2 * QUADS<F>; // per point
    const uint32_t lane = lane_index(), count = tree.buckets.count, run = tree.levels->count;
    const Quad* const from = reinterpret_cast<const Quad*>(base);
    uint32_t first = blockIdx.x * COPY_THREADS + threadIdx.x - lane;
    for (; first < count; first += gridDim.x * COPY_THREADS) {
        const uint32_t b = first + lane, size = b < count ? tree.buckets.size(b) : 0;
        const bool single = size > 0 && remaining_of(size, run) == 1;
        const uint32_t reference = single ? tree.element(b, size, run, 0) : 0;
        const bool negative = reference & SIGN;
        const bool empty = b < count && size == 0 && !tree.buckets.adds_onto();
        const uint32_t points = __ballot_sync(ALL_LANES, single && !negative);
        const uint32_t zeros = __ballot_sync(ALL_LANES, empty);
        Quad* const to = reinterpret_cast<Quad*>(out + first);
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j++) {
            const uint32_t piece = j * LANES + lane, owner = piece / PIECES;
            const uint64_t point = __shfl_sync(ALL_LANES, reference, int(owner));
            if ((points | zeros) >> owner & 1) {
                Quad quad = {};
                if (points >> owner & 1) quad = from[point * PIECES + piece % PIECES];
                to[piece] = quad;
            }
        }
        if (negative) copy_negative(&out[b], base + (reference & ~SIGN));
    }
}
