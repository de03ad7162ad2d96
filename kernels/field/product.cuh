// Rows, which products and reductions consist of, and plain products.
//
// A product a_j x of two limbs occupies limbs j and j + 1. Adjacent j overlap, so there are two
// accumulators: e for pairs that begin at an even limb and o for the others (o[k] is limb k + 1).
// In each, a row x a is one carry chain of aligned pairs, and each product is one IMAD.WIDE. Of a
// row's two chains the *full* one begins at the row's own limb and the *open* one a limb higher.
// The full chain's carry is added to the open chain's top limb, which cannot overflow: both
// accumulators are non-negative and their sum has no higher limb. (A new limb for the carry would
// cost a move per row: IMAD.WIDE needs its addend in an aligned pair of registers.)
#pragma once
#include "limbs.cuh"

// Rows take their factor as a function of the index, so that a field's constants remain immediates.
struct LimbsOf {
    const uint32_t* w;
    FN uint32_t operator()(int i) const { return w[i]; }
};
// Row `from` of a square: limb `from`, then twice the integer that the limbs above it form.
template <int N> struct SquareRow {
    const uint32_t* w;
    int from;
    FN uint32_t operator()(int i) const {
        if (i == from) return w[i];
        if (i == from + 1) return w[i] << 1;
        return funnel_left(w[i - 1], w[i], 1);
    }
};

// Row: (full, open) += a x. CARRIED: the flag holds a carry into the open chain. FRESH: the last
// pair of open is not initialised yet. No condition inside a loop: nvcc's time grows with the
// number of branches that it must remove (benches/experiments/kernels-build.md).
template <int N, bool CARRIED, bool FRESH, class A>
FN void add_row(uint32_t* full, uint32_t* open, const A& a, uint32_t x) {
    if (FRESH) open[N - 2] = open[N - 1] = 0;
    if (CARRIED)
        mad_next(open[0], open[1], a(1), x);
    else
        mad_first(open[0], open[1], a(1), x);
    UNROLL for (int j = 3; j < N - 1; j += 2) mad_next(open[j - 1], open[j], a(j), x);
    mad_last(open[N - 2], open[N - 1], a(N - 1), x);
    mad_first(full[0], full[1], a(0), x);
    UNROLL for (int j = 2; j < N; j += 2) mad_next(full[j], full[j + 1], a(j), x);
    open[N - 1] = add_carry(open[N - 1]);
}
// Row i of a square, from limb i up; `full` and `open` as for FRESH.
template <int N>
FN void add_square_row(uint32_t* full, uint32_t* open, const uint32_t* w, int i) {
    const SquareRow<N> a = {w, i};
    const uint32_t x = w[i];
    const int first_open = i | 1, first_full = i + (i & 1);
    open[N - 2] = open[N - 1] = 0;
    UNROLL for (int j = 1; j < N; j += 2) {
        uint32_t &lo = open[j - 1], &hi = open[j];
        if (j < first_open) continue;
        if (j == first_open)
            mad_first(lo, hi, a(j), x);
        else if (j < N - 1)
            mad_next(lo, hi, a(j), x);
        else
            mad_last(lo, hi, a(j), x);
    }
    UNROLL for (int j = 0; j < N; j += 2) {
        if (j < first_full) continue;
        if (j == first_full)
            mad_first(full[j], full[j + 1], a(j), x);
        else
            mad_next(full[j], full[j + 1], a(j), x);
    }
    if (first_full < N) open[N - 1] = add_carry(open[N - 1]);
}
// The first row: initialises e and o.
template <int N, class A> FN void first_row(uint32_t* e, uint32_t* o, const A& a, uint32_t x) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        mul_wide(e[j], e[j + 1], a(j), x);
        mul_wide(o[j], o[j + 1], a(j + 1), x);
    }
}
// The chains of row i in the accumulators, for i > 0.
FN uint32_t* full_chain(uint32_t* e, uint32_t* o, int i) { return i % 2 ? o + i - 1 : e + i; }
FN uint32_t* open_chain(uint32_t* e, uint32_t* o, int i) { return i % 2 ? e + i + 1 : o + i; }

// An unreduced product.
struct WideProduct {
    uint32_t w[24];
};
// t[0..2N) = the sum of both accumulators after N rows.
template <int N> FN void sum_accumulators(uint32_t* t, const uint32_t* e, const uint32_t* o) {
    t[0] = e[0];
    t[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < 2 * N - 1; k++) t[k] = addc_cc(e[k], o[k - 1]);
    t[2 * N - 1] = addc(e[2 * N - 1], 0);
}
// t[0..2N) = a b, N limbs each.
template <int N> FN void product_words(uint32_t* t, const uint32_t* a, const uint32_t* b) {
    uint32_t e[2 * N], o[2 * N];
    first_row<N>(e, o, LimbsOf{a}, b[0]);
#pragma unroll
    for (int i = 1; i < N; i++)
        add_row<N, false, true>(full_chain(e, o, i), open_chain(e, o, i), LimbsOf{a}, b[i]);
    sum_accumulators<N>(t, e, o);
}
