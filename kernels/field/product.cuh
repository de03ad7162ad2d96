// Products of integers in limbs, and the row that products and reductions are made of.
//
// A product a_j x of two limbs lands on limbs j and j + 1. Neighbouring j overlap, so there are two
// accumulators, e for pairs that begin at an even limb and o for the others (o[k] is limb k + 1);
// in each, a row x a is one carry chain of aligned pairs and each product one IMAD.WIDE. Of a row's
// two chains the *full* one begins at the row's own limb and the *open* one a limb higher. The
// full chain's carry goes into the open chain's top limb, which has room: both accumulators are
// non-negative and their sum is below that limb's end. (A new limb for the carry would cost a move
// a row: IMAD.WIDE wants its addend in an aligned pair of registers.)
#pragma once
#include "limbs.cuh"

// Of limbs in memory or registers; fields' constants come as other functions of the index.
struct LimbsOf {
    const uint32_t* w;
    FN uint32_t operator()(int i) const { return w[i]; }
};
struct ModulusOfFp {
    FN uint32_t operator()(int i) const { return Fp::modulus(i); }
};
struct WordInverseOfFp {
    FN uint32_t operator()(int i) const { return FP_WORD_INVERSE[i]; }
};

// Row: (full, open) += a x. CARRIED: the flag holds a carry into open[0]. FRESH: nothing is in
// the last pair of open yet.
template <int N, bool CARRIED, bool FRESH, class A>
FN void add_row(uint32_t* full, uint32_t* open, const A& a, uint32_t x) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        if (j == N - 2 && FRESH) open[j] = open[j + 1] = 0;
        if (j == 0 && !CARRIED)
            mad_first(open[j], open[j + 1], a(j + 1), x);
        else if (j < N - 2)
            mad_next(open[j], open[j + 1], a(j + 1), x);
        else
            mad_last(open[j], open[j + 1], a(j + 1), x);
    }
    mad_first(full[0], full[1], a(0), x);
#pragma unroll
    for (int j = 2; j < N; j += 2) mad_next(full[j], full[j + 1], a(j), x);
    open[N - 1] = add_carry(open[N - 1]);
}
// Where the chains of row i are in the accumulators, for i > 0.
FN uint32_t* full_chain(uint32_t* e, uint32_t* o, int i) { return i % 2 ? o + i - 1 : e + i; }
FN uint32_t* open_chain(uint32_t* e, uint32_t* o, int i) { return i % 2 ? e + i + 1 : o + i; }
// The first row: e and o are empty.
template <int N, class A> FN void first_row(uint32_t* e, uint32_t* o, const A& a, uint32_t x) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        mul_wide(e[j], e[j + 1], a(j), x);
        mul_wide(o[j], o[j + 1], a(j + 1), x);
    }
}

// 2 N limbs: a product before its reduction.
template <class P> struct Wide {
    uint32_t w[2 * P::LIMBS];
};

// a b in N^2 products.
template <class P> FN Wide<P> product(const Prime<P>& a, const Prime<P>& b) {
    constexpr int N = P::LIMBS;
    uint32_t e[2 * N], o[2 * N];
    first_row<N>(e, o, LimbsOf{a.w}, b.w[0]);
#pragma unroll
    for (int i = 1; i < N; i++)
        add_row<N, false, true>(full_chain(e, o, i), open_chain(e, o, i), LimbsOf{a.w}, b.w[i]);
    Wide<P> t;
    t.w[0] = e[0];
    t.w[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < 2 * N - 1; k++) t.w[k] = addc_cc(e[k], o[k - 1]);
    t.w[2 * N - 1] = addc(e[2 * N - 1], 0);
    return t;
}

// Row i of a square: a_i a_j for all j > i, into pairs at i + j. Of its two chains the one that
// reaches a_(N-1) is open, and takes the other one's carry.
template <int N> FN void add_square_row(uint32_t* e, uint32_t* o, const uint32_t* a, int i) {
#pragma unroll
    for (int turn = 0; turn < 2; turn++) {
        const int first = i + 1 + (turn + N - i) % 2; // turn 0: the open chain
        if (first >= N) continue;
        const bool odd = (i + first) % 2;
        uint32_t* pair = odd ? o + (i + first - 1) : e + (i + first);
#pragma unroll
        for (int j = first; j < N; j += 2, pair += 2) {
            if (j == N - 1) pair[0] = pair[1] = 0;
            if (j == first)
                mad_first(pair[0], pair[1], a[i], a[j]);
            else
                mad_next(pair[0], pair[1], a[i], a[j]);
        }
        uint32_t* top = odd ? e + (i + N) : o + (i + N - 1); // of the open chain
        if (turn == 1) *top = add_carry(*top);
    }
}
// a^2 in N (N + 1) / 2 products: those with i < j once and doubled, then the squares.
template <class P> FN Wide<P> square(const Prime<P>& a) {
    constexpr int N = P::LIMBS;
    uint32_t e[2 * N], o[2 * N];
#pragma unroll
    for (int k = 0; k < 2 * N; k++) e[k] = o[k] = 0;
#pragma unroll
    for (int j = 1; j < N; j += 2) mul_wide(o[j - 1], o[j], a.w[0], a.w[j]);
#pragma unroll
    for (int j = 2; j < N; j += 2) mul_wide(e[j], e[j + 1], a.w[0], a.w[j]);
#pragma unroll
    for (int i = 1; i < N - 1; i++) add_square_row<N>(e, o, a.w, i);
    uint32_t cross[2 * N];
    cross[0] = 0;
    cross[1] = o[0];
    cross[2] = add_cc(e[2], o[1]);
#pragma unroll
    for (int k = 3; k < 2 * N - 1; k++) cross[k] = addc_cc(e[k], o[k - 1]);
    cross[2 * N - 1] = addc(0, 0);
    cross[1] = add_cc(cross[1], cross[1]);
#pragma unroll
    for (int k = 2; k < 2 * N; k++) cross[k] = addc_cc(cross[k], cross[k]);
    Wide<P> t;
#pragma unroll
    for (int k = 0; k < 2 * N; k++) t.w[k] = cross[k];
    mad_first(t.w[0], t.w[1], a.w[0], a.w[0]);
#pragma unroll
    for (int i = 1; i < N; i++) mad_next(t.w[2 * i], t.w[2 * i + 1], a.w[i], a.w[i]);
    return t;
}
