// The steps of steps.cuh, unrolled for tile shapes known at compile time: addresses fold into
// immediates, and the next step's twiddles can be fetched early.
//
// A loop over steps costs 6 to 10 % of a pass (H200, 2^20). Too much code costs as well: steps of
// radix 8 in a row of 2^8 take 117 KB, and an H200 stalls on instruction fetch in one of fifteen
// cycles. Steps of radix 4 take 11 KB each.
#pragma once
#include "steps.cuh"

// A step's twiddles for a thread with two elements, fetched while the previous step computes: these
// kernels are for transforms that leave a device idle, where nothing else hides the latency. TRIM:
// see apply_step_twiddles.
template <int E, int K, bool TRIM> struct Ahead {
    FN void fetch(const Steps&, uint32_t) {}
    FN void apply(Fr* x, const Steps& s, uint32_t first, uint32_t o, bool whole) const {
        const Quad* const entry = step_entry<E>(s, first, o);
        apply_step_twiddles<E, K, TRIM>(x, entry, o, inverse_mask(s.flags), whole);
    }
};
template <int K, bool TRIM> struct Ahead<1, K, TRIM> {
    Twiddle<K> factor;
    FN void fetch(const Steps& s, uint32_t o) {
        const uint32_t first = first_index<1>(threadIdx.x, o + s.shift);
        factor = load_step_twiddle<K>(step_entry<1>(s, first, o) + (1u << o));
    }
    FN void apply(Fr* x, const Steps& s, uint32_t first, uint32_t o, bool whole) const {
        if (whole)
            x[0] = apply_step_twiddle<K>(x[0], step_entry<1>(s, first, o));
        else if (TRIM)
            trim(x[0]);
        x[1] = mul_constant<K>(x[1], factor);
    }
};

// DIF, like dif_any, for STEPS E = lg_r.
template <int E, int K, int STEPS> FN void dif_unrolled(Fr* x, const Steps& s) {
    const uint32_t turn = inverse_mask(s.flags), top = (STEPS - 1) * E;
    uint32_t first = first_index<E>(threadIdx.x, top + s.shift), at = place(first);
    Ahead<E, K, true> ahead;
    if (STEPS > 1) ahead.fetch(s, top);
    if (s.flags & ROWS_FIRST) {
        apply_step_twiddles<E, K>(x, s.rows + row_of(s, first), top, 0, true);
    }
#pragma unroll
    for (int step = STEPS - 1; step > 0; step--) {
        const uint32_t o = uint32_t(step) * E;
        Ahead<E, K, true> next;
        if (step > 1) next.fetch(s, o - E);
        dif_in_registers<E>(x);
        ahead.apply(x, s, first, o, o == top && s.flags & WHOLE);
        if (o < top) __syncthreads(); // all have read what put() stored before
        put<E>(s.tile, at, o + s.shift, turn, x);
        first = first_index<E>(threadIdx.x, o - E + s.shift), at = place(first);
        __syncthreads();
        get<E>(s.tile, at, o - E + s.shift, 0, x);
        ahead = next;
    }
    dif_in_registers<E>(x);
    if (s.flags & ROWS_LAST) {
        apply_step_twiddles<E, K>(x, s.rows + row_of(s, first), 0, turn, true);
    }
}
// DIT, like dit_any. `fresh`: no thread reads the tile yet. `bound` bounds the input.
//
// Twiddles are applied just before the sums here, so it is known which elements are products: some
// sums need no reduction, and slot 0 none at all.
template <int E, int K, int STEPS>
FN void dit_unrolled(Fr* x, const Steps& s, bool fresh, int bound) {
    static_assert(K > 1); // else products are below 2 r only
    const uint32_t turn = inverse_mask(s.flags), top = (STEPS - 1) * E;
    uint32_t first = first_index<E>(threadIdx.x, s.shift), at = place(first);
    Ahead<E, K, false> ahead;
    if (STEPS > 1) ahead.fetch(s, E);
    if (s.flags & ROWS_FIRST) {
        apply_step_twiddles<E, K>(x, s.rows + row_of(s, first), 0, turn, true);
    }
    dit_in_registers<E>(x, bound, bound);
#pragma unroll
    for (int step = 1; step < STEPS; step++) {
        const uint32_t o = uint32_t(step) * E;
        Ahead<E, K, false> next;
        if (step < STEPS - 1) next.fetch(s, o + E);
        if (!fresh || step > 1) __syncthreads(); // all have read what put() stored before
        put<E>(s.tile, at, o - E + s.shift, 0, x);
        first = first_index<E>(threadIdx.x, o + s.shift), at = place(first);
        __syncthreads();
        get<E>(s.tile, at, o + s.shift, turn, x);
        ahead.apply(x, s, first, o, o == top && s.flags & WHOLE);
        dit_in_registers<E>(x, ANY, PRODUCT);
        ahead = next;
    }
    if (s.flags & ROWS_LAST) {
        apply_step_twiddles<E, K>(x, s.rows + row_of(s, first), top, 0, true);
    }
}

// STEPS = 0: the number follows from s.lg_r.
template <int E, int K, int STEPS> FN void dif(Fr* x, const Steps& s) {
    if constexpr (STEPS > 0)
        dif_unrolled<E, K, STEPS>(x, s);
    else
        dif_any<E, K>(x, s);
}
template <int E, int K, int STEPS> FN void dit(Fr* x, const Steps& s, bool fresh, int bound) {
    if constexpr (STEPS > 0)
        dit_unrolled<E, K, STEPS>(x, s, fresh, bound);
    else
        dit_any<E, K>(x, s);
}
