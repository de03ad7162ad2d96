// The rows' pass of transforms with all twiddles fused: splits blocks, as in fused.cuh, until they
// are single elements. There are no inter-pass twiddles, and a coset costs nothing.
//
// Tables: as for a columns' pass, except for the last step of a row, whose blocks have four
// elements: there, twiddle f of block B is the power f + 1 of a fourth root of its s. That step
// takes most of the table, three quarters of an entry per element, and so has fewer multiples.
//
// Without inter-pass twiddles no table can absorb 1/n, so one step of Montgomery's reduction
// divides, a fourteenth of a product. Powers of a coset's generator by bit-reversed exponents would
// cost two more products per element, so such transforms do not fuse this pass.
//
// Barriers: those of unrolled_steps.cuh and passes.cuh.
#pragma once
#include "fused.cuh"

// A thread's row in its transform. DIF tiles to natural order hold other rows than DIT tiles.
FN uint32_t number_of_row(const TileRows& rows, uint32_t flags) {
    const uint32_t c = threadIdx.x >> (rows.lg_r - 2);
    if (rows.spread(flags)) return c << rows.lg_tiles() | rows.tile();
    return (blockIdx.x << rows.lg_c | c) & ((1u << (rows.lg_n - rows.lg_r)) - 1);
}

// DIF. Radix 2^R, 2^C rows. LAST_MULTIPLES: multiples of the last step's twiddles. BIT_REVERSED:
// to natural order.
template <int R, int C, int LAST_MULTIPLES>
FN void dif_fused_rows(const Quad* in, Quad* out, Quad* tile, const Quad* table, uint32_t lg_n,
                       uint32_t flags) {
    const TileRows rows = {0, lg_n, R, C};
    const uint64_t from = rows.source(first_index<2>(threadIdx.x, R - 2), flags);
    Fr x[4];
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) x[e] = load_element(in, from + (e << (R - 2)));
    const FusedTwiddleTable twiddles = {table, number_of_row(rows, flags), lg_n - R};
    const bool unit_twiddles = R == LG_SINGLE_PASS && flags & UNIT_TWIDDLES;
    dif_fused<R / 2, 0, LAST_MULTIPLES>(x, tile, twiddles, unit_twiddles);
    if (flags & DIVIDE_BY_N) {
#pragma unroll
        for (int e = 0; e < 4; e++) x[e] = divide_by_power_of_two(x[e], lg_n);
    }
    store_rows<2, true>(out, tile, rows, flags, x);
}

// DIT, with the same parameters.
template <int R, int C, int LAST_MULTIPLES>
FN void dit_fused_rows(const Quad* in, Quad* out, Quad* tile, const Quad* table, uint32_t lg_n,
                       uint32_t flags) {
    const TileRows rows = {0, lg_n, R, C};
    Fr x[4];
    load_rows<2, true>(x, tile, in, rows, flags);
    if (flags & DIVIDE_BY_N) {
#pragma unroll
        for (int e = 0; e < 4; e++) x[e] = divide_by_power_of_two(x[e], lg_n);
    }
    const FusedTwiddleTable twiddles = {table, number_of_row(rows, 0), lg_n - R};
    constexpr bool MAYBE_UNIT_TWIDDLES = R == LG_SINGLE_PASS;
    dit_fused<R / 2, 0, LAST_MULTIPLES, MAYBE_UNIT_TWIDDLES>(x, tile, twiddles,
                                                             flags & UNIT_TWIDDLES);
    const uint64_t to = rows.first() + first_index<2>(threadIdx.x, R - 2);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if (lg_n == R) finish(x[e]);
        store_element(out, to + (e << (R - 2)), x[e]);
    }
}
