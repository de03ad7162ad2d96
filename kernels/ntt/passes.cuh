// Passes of a transform: what a thread block reads and writes.
//
// A transform of n = 2^lg_n elements is split into passes with radices R_1 R_2 ... = n. A pass sees
// blocks of N consecutive elements, and each as R rows of N / R columns: element p N / R + k is in
// row p and column k. It transforms every column. Element (p, k) is multiplied by T[p][k] =
// root_N^(rev(p) k), after that in DIF, before it in DIT: the next pass has
// blocks of N / R. The pass whose blocks are its rows, N = R, has no such twiddle; it is the last
// one in DIF, the first in DIT. The blocks of all transforms of a batch are consecutive.
//
// A thread block has a tile of R 2^lg_c elements: 2^lg_c adjacent columns, tile index
// q = p 2^lg_c + c; or, if N = R, 2^lg_c blocks, q = c R + p. A thread has 2^E elements.
//
// STEPS: the number of steps, if radix and columns are known at compile time; 0: any.
//
// Barriers: those of steps.cuh, and one on each side of a tile transfer in memory order.
#pragma once
#include "unrolled_steps.cuh"

FN Fr load_element(const Quad* at, uint64_t i) { return from_halves(at[2 * i], at[2 * i + 1]); }
FN void store_element(Quad* at, uint64_t i, const Fr& x) {
    store_halves(at + 2 * i, at + 2 * i + 1, x);
}
// The low `bits` bits of x, reversed.
FN uint32_t reverse(uint32_t x, uint32_t bits) {
    return uint32_t(uint64_t(reverse_bits(x)) >> (32 - bits));
}

// The columns of a thread block.
struct TileColumns {
    uint64_t block; // the first element of its block
    uint32_t k;     // its first column
    uint32_t lg_s, lg_c;

    FN TileColumns(uint32_t lg_block, uint32_t lg_r, uint32_t c) : lg_s(lg_block - lg_r), lg_c(c) {
        const uint32_t lg_tiles = lg_s - c;
        block = uint64_t(blockIdx.x >> lg_tiles) << lg_block;
        k = (blockIdx.x & ((1u << lg_tiles) - 1)) << c;
    }
    FN uint32_t column(uint32_t q) const { return k + (q & ((1u << lg_c) - 1)); }
    FN uint64_t place(uint32_t q) const {
        return block + (uint64_t(q >> lg_c) << lg_s) + column(q);
    }
};

// DIF, N > R.
template <int E, int K, int B, int STEPS>
FN void dif_columns(const Quad* in, Quad* out, const TileSteps& s,
                    const InterPassTwiddles& inter_pass, const TileColumns& columns) {
    Fr x[1 << E];
    const uint32_t top = s.lg_r - E, inverse_mask = inverse_mask_of(s.flags);
    const uint64_t from = columns.place(first_index<E>(threadIdx.x, top + s.shift));
#pragma unroll
    for (uint64_t e = 0; e < 1 << E; e++) {
        x[e] = load_element(in, from + (e << (top + columns.lg_s)));
    }
    const uint32_t first = first_index<E>(threadIdx.x, s.shift);
    const uint32_t p = row_of(s, first), k = columns.column(first);
    prefetch_inter_pass_twiddles<E, B>(inter_pass, p, k); // overlaps the steps
    dif<E, K, STEPS>(x, s);
    apply_inter_pass_twiddles<E, B>(x, inter_pass, p, k, inverse_mask);
    const uint64_t to = columns.place(first);
    uint32_t further[1 << E];
    slots<E>(further, 0, inverse_mask);
#pragma unroll
    for (int e = 0; e < 1 << E; e++) {
        store_element(out, to + (uint64_t(further[e]) << columns.lg_s), x[e]);
    }
}
// DIT, N > R. BIT_REVERSED: to bit-reversed order, in which a column's results are adjacent.
template <int E, int K, int B, int STEPS>
FN void dit_columns(const Quad* in, Quad* out, const TileSteps& s,
                    const InterPassTwiddles& inter_pass, const TileColumns& columns) {
    Fr x[1 << E];
    const uint32_t top = s.lg_r - E, inverse_mask = inverse_mask_of(s.flags);
    uint32_t first = first_index<E>(threadIdx.x, s.shift);
    const uint64_t from = columns.place(first);
    uint32_t further[1 << E];
    slots<E>(further, 0, inverse_mask);
#pragma unroll
    for (int e = 0; e < 1 << E; e++) {
        x[e] = load_element(in, from + (uint64_t(further[e]) << columns.lg_s));
    }
    apply_inter_pass_twiddles<E, B>(x, inter_pass, row_of(s, first), columns.column(first),
                                    inverse_mask);
    dit<E, K, STEPS>(x, s, true, B > 1 ? PRODUCT : BELOW_2R);
    first = first_index<E>(threadIdx.x, top + s.shift);
    uint64_t to = columns.place(first);
    uint32_t lg_step = top + columns.lg_s;
    if (s.flags & BIT_REVERSED) {
        const uint64_t column = reverse(columns.column(first), columns.lg_s);
        to = columns.block + (column << s.lg_r | reverse(row_of(s, first), s.lg_r));
        lg_step = 0;
    }
#pragma unroll
    for (uint32_t e = 0; e < 1 << E; e++) {
        if (s.flags & CANONICAL) finish(x[e]);
        const uint64_t row = s.flags & BIT_REVERSED ? reverse_small(e, E) : e;
        store_element(out, to + (row << lg_step), x[e]);
    }
}

// log2 of the row length that has its own kernels if one row is a whole transform.
constexpr int LG_SINGLE_PASS = 10;

// The blocks of N = R elements of a thread block. `count`: total elements; nothing is read or
// written beyond them, which can only occur if a row is a whole transform and STEPS is 0.
struct TileRows {
    uint64_t count;
    uint32_t lg_n, lg_r, lg_c;

    FN uint64_t first() const { return uint64_t(blockIdx.x) << (lg_r + lg_c); }
    // DIF to natural order: column c is the block with c in its top bits, so that results of the
    // tile's columns are adjacent.
    FN bool spread(uint32_t flags) const { return flags & BIT_REVERSED && lg_n > lg_r; }
    FN uint32_t lg_tiles() const { return lg_n - lg_r - lg_c; } // of a transform, if spread
    FN uint64_t transform() const { return uint64_t(blockIdx.x >> lg_tiles()) << lg_n; }
    FN uint32_t tile() const { return blockIdx.x & ((1u << lg_tiles()) - 1); }
    // DIF: the address from which the element with tile index q is read.
    FN uint64_t source(uint32_t q, uint32_t flags) const {
        if (!spread(flags)) return first() + q;
        return transform() + (uint64_t(q >> lg_r) << (lg_n - lg_c)) + (tile() << lg_r) +
               (q & ((1u << lg_r) - 1));
    }
};

// The store order of a tile: maps the v-th element in address order to its place in the tile and to
// its offset from the tile's first address, bit by bit of v.
struct StoreOrder {
    uint32_t lg_r, lg_c;
    bool bit_reversed;
    uint32_t lg_spread; // distance between rows' results of a spread tile; else 0

    FN uint32_t tile_bit(uint32_t v) const {
        if (lg_spread) return lg_r + lg_c - 1 - v; // row and column are reversed and swapped
        return bit_reversed && v < lg_r ? lg_r - 1 - v : v;
    }
    FN uint64_t address_of_bit(uint32_t v) const {
        return uint64_t(1) << (lg_spread && v >= lg_c ? v - lg_c + lg_spread : v);
    }
    FN uint32_t place_of(uint32_t v) const {
        const uint32_t row = v & ((1u << lg_r) - 1);
        if (lg_spread) return place(reverse(v, lg_r + lg_c));
        return place(bit_reversed ? (v ^ row) | reverse(row, lg_r) : v);
    }
    FN uint64_t address(uint32_t v) const {
        const uint32_t column = v & ((1u << lg_c) - 1);
        return lg_spread ? uint64_t(v >> lg_c) << lg_spread | column : v;
    }
};

// Stores a tile at `to`, only below `end` unless WHOLE_TILE. Adjacent lanes store adjacent halves.
template <int E, bool WHOLE_TILE>
FN void store_tile(Quad* out, const Quad* tile, const StoreOrder& stored, uint64_t to,
                   uint64_t end) {
    to += stored.address(threadIdx.x / 2);
    const uint32_t at = stored.place_of(threadIdx.x / 2) ^ (threadIdx.x & 1 ? HIGH_HALF : 0);
    const uint32_t bit = stored.lg_r + stored.lg_c - E - 1; // set in upper threads
#pragma unroll
    for (uint32_t i = 0; i < 2 << E; i++) {
        uint32_t here = at;
        uint64_t there = to;
#pragma unroll
        for (uint32_t j = 0; j <= E; j++) {
            if ((i >> j & 1) == 0) continue;
            here ^= place_of_bit(stored.tile_bit(bit + j));
            there += stored.address_of_bit(bit + j);
        }
        if (WHOLE_TILE || there < end) out[2 * there + (threadIdx.x & 1)] = tile[here];
    }
}

// Stores the results of a DIF rows' pass, through the tile so that stores are in address order.
template <int E, bool WHOLE_TILE>
FN void store_rows(Quad* out, Quad* tile, const TileRows& rows, uint32_t flags, Fr* x) {
#pragma unroll
    for (int e = 0; e < 1 << E; e++) finish(x[e]);
    __syncthreads();
    put_in_tile<E>(tile, place(first_index<E>(threadIdx.x, 0)), 0, inverse_mask_of(flags), x);
    __syncthreads();
    const bool spread = rows.spread(flags);
    const uint32_t lg_r = rows.lg_r, lg_spread = spread ? rows.lg_n - lg_r : 0;
    uint64_t to = rows.first();
    if (spread) to = rows.transform() + (reverse(rows.tile(), rows.lg_tiles()) << rows.lg_c);
    if (flags & BIT_REVERSED)
        store_tile<E, WHOLE_TILE>(out, tile, {lg_r, rows.lg_c, true, lg_spread}, to, rows.count);
    else
        store_tile<E, WHOLE_TILE>(out, tile, {lg_r, rows.lg_c, false, 0}, to, rows.count);
}
// DIF, N = R. BIT_REVERSED: to natural order.
template <int E, int K, int STEPS>
FN void dif_rows(const Quad* in, Quad* out, const TileSteps& s, const TileRows& rows) {
    Fr x[1 << E];
    const uint32_t top = s.lg_r - E;
    const uint64_t from = rows.source(first_index<E>(threadIdx.x, top), s.flags);
#pragma unroll
    for (uint64_t e = 0; e < 1 << E; e++) {
        const uint64_t i = from + (e << top);
        x[e] = STEPS || i < rows.count ? load_element(in, i) : Fr::zero();
    }
    dif<E, K, STEPS>(x, s);
    store_rows<E, (STEPS > 0)>(out, s.tile, rows, s.flags, x);
}
// Loads the input of a DIT rows' pass, through the tile: adjacent lanes load adjacent halves.
template <int E, bool WHOLE_TILE>
FN void load_rows(Fr* x, Quad* tile, const Quad* in, const TileRows& rows, uint32_t flags) {
    const uint64_t from = 2 * rows.first() + threadIdx.x;
    const uint32_t at = place(threadIdx.x / 2) ^ (threadIdx.x & 1 ? HIGH_HALF : 0);
    const uint32_t bit = rows.lg_r + rows.lg_c - E - 1; // set in upper threads
#pragma unroll
    for (uint32_t i = 0; i < 2 << E; i++) {
        uint32_t here = at;
#pragma unroll
        for (uint32_t j = 0; j <= E; j++) here ^= i >> j & 1 ? place_of_bit(bit + j) : 0;
        const uint64_t half = from + (uint64_t(i) << (bit + 1));
        const Quad none = {{0, 0, 0, 0}};
        tile[here] = WHOLE_TILE || half < 2 * rows.count ? in[half] : none;
    }
    __syncthreads();
    get_from_tile<E>(tile, place(first_index<E>(threadIdx.x, 0)), 0, inverse_mask_of(flags), x);
}
// DIT, N = R. BIT_REVERSED: to bit-reversed order, if a row is a whole transform.
template <int E, int K, int STEPS>
FN void dit_rows(const Quad* in, Quad* out, const TileSteps& s, const TileRows& rows) {
    const uint32_t top = s.lg_r - E, row_mask = (1u << s.lg_r) - 1;
    Fr x[1 << E];
    load_rows<E, (STEPS > 0)>(x, s.tile, in, rows, s.flags);
    dit<E, K, STEPS>(x, s, false, PRODUCT); // input: canonical, or products with `row_factors`
    const uint32_t first = first_index<E>(threadIdx.x, top);
#pragma unroll
    for (uint32_t e = 0; e < 1 << E; e++) {
        if (s.flags & CANONICAL) finish(x[e]);
        uint32_t q = first | e << top;
        if (s.flags & BIT_REVERSED) q = (q & ~row_mask) | reverse(q & row_mask, s.lg_r);
        if (STEPS || rows.first() + q < rows.count) store_element(out, rows.first() + q, x[e]);
    }
}
