// Where the summands of a warp's sums lie while they are added: columns in shared memory, of one
// element a lane.
//
// Lanes fetch for each other, a few neighbours the pieces of one element. Where each fetched its
// own, an instruction asked for 16 bytes at 32 places, and each went to the cache by itself.
#pragma once
#include "../warp.cuh"
#include "source.cuh"

template <class F, uint32_t T> struct Stage {
    // Pieces from one of an element to its next one: two more than threads, so that those of two
    // neighbours that six lanes fetch are in different banks.
    static constexpr uint32_t STRIDE = T + 2;
    // Lanes that fetch an element, of which the last two fetch the same: a power of two finds its
    // element without division.
    static constexpr uint32_t FETCHERS = 4, PIECES = 3;
    static_assert(QUADS<F> % PIECES == 0, "each fetches as many");
    Quad* shared;

    FN Column<F, STRIDE> column(uint32_t k) const {
        return {shared + threadIdx.x + k * QUADS<F> * STRIDE};
    }
    // Both points' coordinate, 0 for x and 1 for y, into columns `to` and `to` + 1 of each lane. All
    // lanes take part; who waits for the copies has to wait for the warp as well.
    FN void fetch(uint32_t to, const Affine<F>* table, const Pair& pair,
                  uint32_t coordinate) const {
        const uint32_t lane = lane_index(), lane_piece = lane % FETCHERS;
        const uint32_t piece = lane_piece < PIECES ? lane_piece : PIECES - 1;
        const Quad* const from = opaque(reinterpret_cast<const Quad*>(table) +
                                        (coordinate * QUADS<F> + piece));
        Quad* const column = shared + (threadIdx.x - lane + lane / FETCHERS + piece * STRIDE);
        __syncwarp(); // the columns have been read
#pragma unroll
        for (uint32_t k = 0; k < LANES; k += LANES / FETCHERS) {
            const Pair its = broadcast(pair, k + lane / FETCHERS);
            copy(column + k + to * QUADS<F> * STRIDE, from, its.first & ~SIGN);
            copy(column + k + (to + 1) * QUADS<F> * STRIDE, from, its.second & ~SIGN);
        }
    }

  private:
    static FN void copy(Quad* to, const Quad* from, uint32_t index) {
        from += uint64_t(index) * (2 * QUADS<F>);
#pragma unroll
        for (uint32_t j = 0; j < QUADS<F>; j += PIECES) copy16_async(to + j * STRIDE, from + j);
    }
};
