// The rows' pass of transforms whose factors are all merged into butterflies: blocks are split, as
// in merged.cuh, until they are single elements. There is no border, and a coset costs nothing.
//
// Tables: as a columns' pass has them, but for the last step of a row, whose blocks have four
// elements: there, factor f of block B is the power f + 1 of a fourth root of its s. It has most of
// the table, three quarters of an entry for each element, and keeps fewer multiples for that.
//
// Without a border, 1/n has no table to go into: it is one step of Montgomery's reduction, a
// fourteenth of a product. Powers of a coset's generator by bit-reversed numbers would take two
// products more for each element, so passes are not merged like this for these.
//
// Barriers: those of straight.cuh and passes.cuh.
#pragma once
#include "merged.cuh"

// The row of a thread in its transform. Downward to natural order, tiles have others than upward.
FN uint32_t number_of_row(const Rows& rows, uint32_t flags) {
    const uint32_t c = threadIdx.x >> (rows.lg_r - 2);
    if (rows.spread(flags)) return c << rows.lg_tiles() | rows.tile();
    return (blockIdx.x << rows.lg_c | c) & ((1u << (rows.lg_n - rows.lg_r)) - 1);
}

// Radix 2^R, 2^C rows. LAST: multiples that are kept of the last step's factors. Downward; TURNED:
// to natural order.
template <int R, int C, int LAST>
FN void descend_merged_rows(const Quad* in, Quad* out, Quad* tile, const Quad* table, uint32_t lg_n,
                            uint32_t flags) {
    const Rows rows = {0, lg_n, R, C};
    const uint64_t from = rows.source(first_index<2>(threadIdx.x, R - 2), flags);
    Fr x[4];
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) x[e] = load_element(in, from + (e << (R - 2)));
    const Blocks blocks = {table, number_of_row(rows, flags), lg_n - R};
    descend_merged<R / 2, 0, LAST>(x, tile, blocks, R == LG_ALONE && flags & PLAIN);
    if (flags & DIVIDED) {
#pragma unroll
        for (int e = 0; e < 4; e++) x[e] = divide_by_power_of_two(x[e], lg_n);
    }
    store_rows<2, true>(out, tile, rows, flags, x);
}

// Upward.
template <int R, int C, int LAST>
FN void ascend_merged_rows(const Quad* in, Quad* out, Quad* tile, const Quad* table, uint32_t lg_n,
                           uint32_t flags) {
    const Rows rows = {0, lg_n, R, C};
    Fr x[4];
    load_rows<2, true>(x, tile, in, rows, flags);
    if (flags & DIVIDED) {
#pragma unroll
        for (int e = 0; e < 4; e++) x[e] = divide_by_power_of_two(x[e], lg_n);
    }
    const Blocks blocks = {table, number_of_row(rows, 0), lg_n - R};
    constexpr bool MAYBE_PLAIN = R == LG_ALONE;
    ascend_merged<R / 2, 0, LAST, MAYBE_PLAIN>(x, tile, blocks, flags & PLAIN);
    const uint64_t to = rows.first() + first_index<2>(threadIdx.x, R - 2);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if (lg_n == R) finish(x[e]);
        store_element(out, to + (e << (R - 2)), x[e]);
    }
}
