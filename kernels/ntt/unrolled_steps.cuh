// The steps of steps.cuh, unrolled for tile shapes known at compile time: addresses fold into
// immediates, and the next step's twiddles can be fetched early.
//
// A loop over steps costs 6 to 10 % of a pass of 2^20. Too much code costs as well: rows of 2^8 in
// steps of radix 8 stall on instruction fetch (benches/experiments/ntt.md).
#pragma once
#include "steps.cuh"

// A step's twiddles for a thread with two elements, fetched while the previous step computes: these
// kernels are for transforms that leave a device idle, where nothing else hides the latency. TRIM:
// see apply_step_twiddles.
template <int E, int K, bool TRIM> struct PrefetchedTwiddles {
    FN void fetch(const TileSteps&, uint32_t) {}
    FN void apply(Fr* x, const TileSteps& s, uint32_t first, uint32_t o, bool whole) const {
        const Quad* const entry = step_entry<E>(s, first, o);
        apply_step_twiddles<E, K, TRIM>(x, entry, o, inverse_mask_of(s.flags), whole);
    }
};
template <int K, bool TRIM> struct PrefetchedTwiddles<1, K, TRIM> {
    Twiddle<K> factor;
    FN void fetch(const TileSteps& s, uint32_t o) {
        const uint32_t first = first_index<1>(threadIdx.x, o + s.shift);
        factor = load_step_twiddle<K>(step_entry<1>(s, first, o) + (1u << o));
    }
    FN void apply(Fr* x, const TileSteps& s, uint32_t first, uint32_t o, bool whole) const {
        if (whole)
            x[0] = apply_step_twiddle<K>(x[0], step_entry<1>(s, first, o));
        else if (TRIM)
            trim(x[0]);
        x[1] = mul_constant<K>(x[1], factor);
    }
};

// DIF, like dif_any, for STEPS E = lg_r.
template <int E, int K, int STEPS> FN void dif_unrolled(Fr* x, const TileSteps& s) {
    const uint32_t inverse_mask = inverse_mask_of(s.flags), top = (STEPS - 1) * E;
    uint32_t first = first_index<E>(threadIdx.x, top + s.shift), at = place(first);
    PrefetchedTwiddles<E, K, true> ahead;
    if (STEPS > 1) ahead.fetch(s, top);
    if (s.flags & ROWS_FIRST) {
        apply_step_twiddles<E, K>(x, s.row_factors + row_of(s, first), top, 0, true);
    }
#pragma unroll
    for (int step = STEPS - 1; step > 0; step--) {
        const uint32_t o = uint32_t(step) * E;
        PrefetchedTwiddles<E, K, true> next;
        if (step > 1) next.fetch(s, o - E);
        dif_in_registers<E>(x);
        ahead.apply(x, s, first, o, o == top && s.flags & TOP_SCALED);
        if (o < top) __syncthreads(); // all have read what was stored before
        put_in_tile<E>(s.tile, at, o + s.shift, inverse_mask, x);
        first = first_index<E>(threadIdx.x, o - E + s.shift), at = place(first);
        __syncthreads();
        get_from_tile<E>(s.tile, at, o - E + s.shift, 0, x);
        ahead = next;
    }
    dif_in_registers<E>(x);
    if (s.flags & ROWS_LAST) {
        apply_step_twiddles<E, K>(x, s.row_factors + row_of(s, first), 0, inverse_mask, true);
    }
}
// DIT, like dit_any. `fresh`: no thread reads the tile yet. `bound` bounds the input.
//
// Twiddles are applied just before the sums here, so it is known which elements are products: some
// sums need no reduction, and slot 0 none at all.
template <int E, int K, int STEPS>
FN void dit_unrolled(Fr* x, const TileSteps& s, bool fresh, int bound) {
    static_assert(K > 1); // else products are below 2 r only
    const uint32_t inverse_mask = inverse_mask_of(s.flags), top = (STEPS - 1) * E;
    uint32_t first = first_index<E>(threadIdx.x, s.shift), at = place(first);
    PrefetchedTwiddles<E, K, false> ahead;
    if (STEPS > 1) ahead.fetch(s, E);
    if (s.flags & ROWS_FIRST) {
        apply_step_twiddles<E, K>(x, s.row_factors + row_of(s, first), 0, inverse_mask, true);
    }
    dit_in_registers<E>(x, bound, bound);
#pragma unroll
    for (int step = 1; step < STEPS; step++) {
        const uint32_t o = uint32_t(step) * E;
        PrefetchedTwiddles<E, K, false> next;
        if (step < STEPS - 1) next.fetch(s, o + E);
        if (!fresh || step > 1) __syncthreads(); // all have read what was stored before
        put_in_tile<E>(s.tile, at, o - E + s.shift, 0, x);
        first = first_index<E>(threadIdx.x, o + s.shift), at = place(first);
        __syncthreads();
        get_from_tile<E>(s.tile, at, o + s.shift, inverse_mask, x);
        ahead.apply(x, s, first, o, o == top && s.flags & TOP_SCALED);
        dit_in_registers<E>(x, ANY, PRODUCT);
        ahead = next;
    }
    if (s.flags & ROWS_LAST) {
        apply_step_twiddles<E, K>(x, s.row_factors + row_of(s, first), top, 0, true);
    }
}

// STEPS = 0: the number follows from s.lg_r.
template <int E, int K, int STEPS> FN void dif(Fr* x, const TileSteps& s) {
    if constexpr (STEPS > 0)
        dif_unrolled<E, K, STEPS>(x, s);
    else
        dif_any<E, K>(x, s);
}
template <int E, int K, int STEPS> FN void dit(Fr* x, const TileSteps& s, bool fresh, int bound) {
    if constexpr (STEPS > 0)
        dit_unrolled<E, K, STEPS>(x, s, fresh, bound);
    else
        dit_any<E, K>(x, s);
}
