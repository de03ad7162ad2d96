// The transform of a tile's rows: register steps, exchanges through shared memory between them, and
// the twiddles inside.
//
// A row has R = 2^lg_r elements, lg_r a multiple of E. A step transforms the field of E bits at bit
// o of the row index: in DIF from the top down, natural order to bit-reversed; in DIT from the
// bottom up, bit-reversed to natural. After a DIF step (before a DIT step) element (field f, lower
// bits l) is multiplied by root_M^(rev(f) l), M = 2^(o + E): entry M + f 2^o + l of
// `tile_twiddles`.
//
// One loop body serves all steps and all radices here. For the tiles of large transforms
// unrolled_steps.cuh unrolls the steps.
#pragma once
#include "twiddles.cuh"

// Options of a pass.
enum : uint32_t {
    INVERSE = 1,
    ROWS_FIRST = 2,     // multiplies the input by `row_factors`, by index
    ROWS_LAST = 4,      // multiplies the output by `row_factors`, by index
    TOP_SCALED = 8,     // in the step over the top field, slot 0's twiddles are not 1
    CANONICAL = 16,     // writes canonical elements
    BIT_REVERSED = 32,  // writes the order of the input instead of the reversed one
    UNIT_TWIDDLES = 64, // fused.cuh: in the step over the top field, two twiddles are 1
    DIVIDE_BY_N = 128,  // fused_rows.cuh: divides by the transform's length
};
FN uint32_t inverse_mask_of(uint32_t flags) { return flags & INVERSE ? ~0u : 0u; }

struct TileSteps {
    Quad* tile;
    const Quad *tile_twiddles, *row_factors;
    uint32_t lg_r, flags;
    uint32_t shift; // bits of a tile index below the row's
};
FN uint32_t row_of(const TileSteps& s, uint32_t q) { return q >> s.shift & ((1u << s.lg_r) - 1); }

// The entry of a step's twiddles for a thread's elements.
template <int E> FN const Quad* step_entry(const TileSteps& s, uint32_t first, uint32_t o) {
    return s.tile_twiddles + (1u << (o + E)) + (row_of(s, first) & ((1u << o) - 1));
}

// DIF. In: x holds the elements at the top field, slots in order, below 2 r. Out: those at the
// lowest field, by `slot`; any.
template <int E, int K> FN void dif_any(Fr* x, const TileSteps& s) {
    const uint32_t inverse_mask = inverse_mask_of(s.flags), top = s.lg_r - E;
    uint32_t o = top, first = first_index<E>(threadIdx.x, o + s.shift), at = place(first);
    const Quad* entry = s.row_factors + row_of(s, first);
    uint32_t entry_inverse_mask = 0;
    bool scaled = s.flags & ROWS_FIRST, whole = true, begun = false;
#pragma unroll 1
    while (true) {
        if (scaled) apply_step_twiddles<E, K>(x, entry, o, entry_inverse_mask, whole);
        if (begun) {
            if (o == 0) return;
            __syncthreads(); // all have read what was stored before
            put_in_tile<E>(s.tile, at, o + s.shift, inverse_mask, x);
            o -= E;
            first = first_index<E>(threadIdx.x, o + s.shift), at = place(first);
            __syncthreads();
            get_from_tile<E>(s.tile, at, o + s.shift, 0, x);
        }
        dif_in_registers<E>(x);
        if (o == 0 && !(s.flags & ROWS_LAST)) return;
        entry = o ? step_entry<E>(s, first, o) : s.row_factors + row_of(s, first);
        whole = o == 0 || (o == top && s.flags & TOP_SCALED);
        scaled = begun = true, entry_inverse_mask = inverse_mask;
    }
}
// DIT. In: x holds the elements at the lowest field, by `slot`, below 2 r. Out: those at the top
// field, slots in order; any.
template <int E, int K> FN void dit_any(Fr* x, const TileSteps& s) {
    const uint32_t inverse_mask = inverse_mask_of(s.flags), top = s.lg_r - E;
    uint32_t o = 0, first = first_index<E>(threadIdx.x, s.shift), at = place(first);
    const Quad* entry = s.row_factors + row_of(s, first);
    uint32_t entry_inverse_mask = inverse_mask;
    bool scaled = s.flags & ROWS_FIRST, whole = true, done = false;
#pragma unroll 1
    while (true) {
        if (scaled) apply_step_twiddles<E, K>(x, entry, o, entry_inverse_mask, whole);
        if (done) return;
        dit_in_registers<E>(x);
        scaled = true;
        if (o == top) {
            if (!(s.flags & ROWS_LAST)) return;
            entry = s.row_factors + row_of(s, first);
            entry_inverse_mask = 0, whole = done = true;
            continue;
        }
        __syncthreads(); // all have read what was stored before
        put_in_tile<E>(s.tile, at, o + s.shift, 0, x);
        o += E;
        first = first_index<E>(threadIdx.x, o + s.shift), at = place(first);
        __syncthreads();
        get_from_tile<E>(s.tile, at, o + s.shift, inverse_mask, x);
        entry = step_entry<E>(s, first, o);
        entry_inverse_mask = inverse_mask, whole = o == top && s.flags & TOP_SCALED;
    }
}
