// Montgomery products in Fp. Ranges: see ../field.cuh.
//
// Dropping a limb. A Montgomery step adds m p, m = -x / p mod 2^32, to make the lowest limb x zero.
// Its effect on the residue is known without m: x equals x 2^-32 one limb up, and V = 2^-32 mod p
// has twelve limbs. So t -> (t - x) / 2^32 + x V. That takes as many products, but has no m on the
// critical path and no carry out of the dropped limb. Such a step, however, adds up to 2^32 p; of
// step i of 12, a fraction 2^(-32 (11 - i)) remains in the result. So the first ten steps are of
// this kind, the last two are Montgomery steps, and the result is below t / R + p (1 + 2^-31).
//
// Before a limb is dropped, accumulators hold less than 2^32 (2 p + the sum of the rows' factors)
// (1 + 2^-31). 13 limbs are enough while that sum is below 7.8 p.
#pragma once
#include "product.cuh"

constexpr int FP_WORD_STEPS = 10; // followed by 2 Montgomery steps

struct WordInverseLimbs {
    FN uint32_t operator()(int i) const { return FP_WORD_INVERSE[i]; }
};
struct ModulusLimbs {
    FN uint32_t operator()(int i) const { return Fp::modulus(i); }
};

// Adds the two parts of limb i at the bottom of row i's full chain; a carry goes to the open chain.
FN void join_limb(uint32_t* e, uint32_t* o, int i) {
    full_chain(e, o, i)[0] = add_cc(full_chain(e, o, i)[0], i % 2 ? e[i] : o[i - 1]);
}
// Adds the residue of limb i - 1, x, if that limb was dropped without a multiple of p. Then, for
// the last limbs, clears limb i by a Montgomery step. Returns limb i. FRESH, CARRIED: see add_row.
template <bool CARRIED, bool FRESH>
FN uint32_t reduce_row(uint32_t* e, uint32_t* o, int i, uint32_t x) {
    uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
    if (i <= FP_WORD_STEPS) {
        add_row<12, CARRIED, FRESH>(full, open, WordInverseLimbs{}, x);
        if (i < FP_WORD_STEPS) return full[0];
        add_row<12, false, false>(full, open, ModulusLimbs{}, full[0] * FP_INVERSE_NEG);
    } else {
        add_row<12, CARRIED, FRESH>(full, open, ModulusLimbs{}, full[0] * FP_INVERSE_NEG);
    }
    return full[0];
}
// Limbs 12 and up of the accumulators.
FN Fp upper_half(const uint32_t* e, const uint32_t* o) {
    Fp r;
    r.w[0] = add_cc(e[12], o[11]);
#pragma unroll
    for (int k = 1; k < 11; k++) r.w[k] = addc_cc(e[12 + k], o[11 + k]);
    r.w[11] = addc(e[23], 0);
    return r;
}

// The Montgomery-reduced sum of a[t] b[t]. Products and reduction alternate row by row in one pair
// of accumulators: few live registers, and no sums of whole products.
template <int TERMS> FN Fp dot(const Fp* const (&a)[TERMS], const Fp* const (&b)[TERMS]) {
    uint32_t e[24], o[24];
    first_row<12>(e, o, LimbsOf{a[0]->w}, b[0]->w[0]);
#pragma unroll
    for (int t = 1; t < TERMS; t++)
        add_row<12, false, false>(e, o, LimbsOf{a[t]->w}, b[t]->w[0]);
    uint32_t x = e[0];
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        join_limb(e, o, i);
        add_row<12, true, true>(full, open, LimbsOf{a[0]->w}, b[0]->w[i]);
#pragma unroll
        for (int t = 1; t < TERMS; t++)
            add_row<12, false, false>(full, open, LimbsOf{a[t]->w}, b[t]->w[i]);
        x = reduce_row<false, false>(e, o, i, x);
    }
    const Fp r = upper_half(e, o);
    ASSERT_RANGE(is_below<2>(r));
    return r;
}
FN Fp mul(const Fp& a, const Fp& b) {
    ASSERT_RANGE(ratio(a) < 7.8 && ratio(a) * ratio(b) < 9.8);
    return dot<1>({&a}, {&b});
}
FN Fp mul_add_mul(const Fp& a, const Fp& b, const Fp& c, const Fp& d) {
    ASSERT_RANGE(ratio(a) + ratio(c) < 7.8);
    ASSERT_RANGE(ratio(a) * ratio(b) + ratio(c) * ratio(d) < 9.8);
    return dot<2>({&a, &c}, {&b, &d});
}
// a b + (2 p - c) d.
FN Fp mul_sub_mul(const Fp& a, const Fp& b, const Fp& c, const Fp& d) {
    return mul_add_mul(a, b, neg_lazy<2>(c), d);
}
// Each product a_i a_j with i < j is computed once and doubled: 78 + 144 limb products. Row i of
// the square begins at limb 2 i, so limb i is complete when it is dropped.
FN Fp sqr(const Fp& a) {
    ASSERT_RANGE(ratio(a) * ratio(a) < 9.8);
    uint32_t e[24], o[24];
    first_row<12>(e, o, SquareRow<12>{a.w, 0}, a.w[0]);
    uint32_t x = e[0];
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        add_square_row<12>(full, open, a.w, i);
        join_limb(e, o, i);
        x = reduce_row<true, false>(e, o, i, x);
    }
    const Fp r = upper_half(e, o);
    ASSERT_RANGE(is_below<2>(r));
    return r;
}
// t / R, below t / R + p (1 + 2^-31), so below 2 p for t < 0.99 p R. The upper half of t is added
// at the end, so that no carry ripples through it.
FN Fp reduce(const WideProduct& t) {
    uint32_t e[24], o[24], x = t.w[0];
#pragma unroll
    for (int k = 0; k < 12; k++) e[k] = t.w[k];
#pragma unroll
    for (int j = 0; j < 12; j += 2) mul_wide(o[j], o[j + 1], FP_WORD_INVERSE[j], x);
    join_limb(e, o, 1);
#pragma unroll
    for (int j = 1; j < 12; j += 2) {
        if (j == 11) e[12] = e[13] = 0;
        mad_next(e[j + 1], e[j + 2], FP_WORD_INVERSE[j], x);
    }
    x = o[0];
#pragma unroll
    for (int i = 2; i < 12; i++) {
        join_limb(e, o, i);
        x = reduce_row<true, true>(e, o, i, x);
    }
    Fp r = upper_half(e, o);
    add_words<12>(r.w, r.w, t.w + 12);
    ASSERT_RANGE(is_below<2>(r));
    return r;
}
FN Fp to_montgomery(const Fp& a) {
    Fp square;
#pragma unroll
    for (int i = 0; i < 12; i++) square.w[i] = FP_RADIX_SQUARED[i];
    return canonical(mul(a, square));
}
FN Fp from_montgomery(const Fp& a) {
    WideProduct t;
#pragma unroll
    for (int i = 0; i < 12; i++) t.w[i] = a.w[i], t.w[12 + i] = 0;
    return canonical(reduce(t));
}
