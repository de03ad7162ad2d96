// Shared memory for the summands of a warp's sums: columns of one element per lane.
//
// Lanes fetch for each other: a few adjacent lanes fetch the pieces of one element. If each lane
// fetched its own, an instruction would access 16 bytes at 32 places, each a separate cache access.
#pragma once
#include "../warp.cuh"
#include "summands.cuh"

template <class F, uint32_t THREADS> struct SummandColumns {
    // Pieces between consecutive pieces of an element. The 2 puts the pieces of two adjacent
    // elements, which six lanes fetch, into different banks.
    static constexpr uint32_t STRIDE = THREADS + 2;
    // Lanes per element. The last two fetch the same piece: a power of two avoids a division.
    static constexpr uint32_t FETCHERS = 4, PIECES = 3;
    static_assert(QUADS<F> % PIECES == 0, "each fetches as many");
    Quad* shared;

    FN SharedColumn<F, STRIDE> column(uint32_t k) const {
        return {shared + threadIdx.x + k * QUADS<F> * STRIDE};
    }
    // Fetches one coordinate of both points, 0 for x and 1 for y, into columns `to` and `to` + 1 of
    // each lane. All lanes take part; after waiting for the copies, also synchronise the warp.
    FN void fetch(uint32_t to, const Affine<F>* table, const Pair& pair,
                  uint32_t coordinate) const {
        const uint32_t lane = lane_index(), lane_piece = lane % FETCHERS;
        const uint32_t piece = lane_piece < PIECES ? lane_piece : PIECES - 1;
        const Quad* const from = opaque(reinterpret_cast<const Quad*>(table) +
                                        (coordinate * QUADS<F> + piece));
        Quad* const column = shared + (threadIdx.x - lane + lane / FETCHERS + piece * STRIDE);
        __syncwarp(); // all lanes have read the columns
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
