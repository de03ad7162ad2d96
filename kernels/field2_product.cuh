// Products in Fp2 from one whole product and two that are reduced row by row.
//
//   m = b1 (a0 - a1)    c0 = m + a0 (b0 - b1)    c1 = m + a1 (b0 + b1)
//
// Three Fp products as in Karatsuba's method, but only m is computed as a whole: the other two are
// accumulated onto it while they are reduced. The ranges leave no room for an offset that makes
// differences positive. So row i multiplies by limb i of the difference mod R, and if the
// difference is negative, the other factor is subtracted from the upper half:
// f (d + R) = f d + f R. A limb of a row is arbitrary, so the bound on accumulators (see
// field/fp.cuh) holds.
#pragma once
#include "field/fp.cuh"

// A difference mod R, and a mask that is all ones if it is negative.
struct SignedDifference {
    Fp limbs;
    uint32_t negative;
};
FN SignedDifference difference(const Fp& a, const Fp& b) {
    SignedDifference d;
    sub_words<12>(d.limbs.w, a.w, b.w);
    d.negative = borrow_mask();
    return d;
}
// If `negative` is all ones, upper -= a mod R.
FN void subtract_if(uint32_t negative, uint32_t* upper, const Fp& a) {
    uint32_t masked[12];
#pragma unroll
    for (int i = 0; i < 12; i++) masked[i] = a.w[i] & negative;
    sub_words<12>(upper, upper, masked);
}
// The sum of a[t] b[t], unreduced; requires the sum of a[t] to be below 7.8 p.
template <int TERMS>
FN WideProduct wide_dot(const Fp* const (&a)[TERMS], const Fp* const (&b)[TERMS]) {
    uint32_t e[24], o[24];
    first_row<12>(e, o, LimbsOf{a[0]->w}, b[0]->w[0]);
#pragma unroll
    for (int i = 0; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        if (i > 0) add_row<12, false, true>(full, open, LimbsOf{a[0]->w}, b[0]->w[i]);
#pragma unroll
        for (int t = 1; t < TERMS; t++)
            add_row<12, false, false>(full, open, LimbsOf{a[t]->w}, b[t]->w[i]);
    }
    WideProduct r;
    sum_accumulators<12>(r.w, e, o);
    return r;
}
// (m + the sum of a[t] b[t]) / R mod R. For a sum T of signed integers mod p, the result is between
// T / R and T / R + p (1 + 2^-31). The sum of a[t] is below 7.8 p, b is arbitrary. The accumulators
// start with m's lower half, which adds less than R, 2^-32 of their bound. The upper half is added
// at the end, so that no carry ripples through it.
template <int TERMS>
FN Fp dot_onto(const WideProduct& m, const Fp* const (&a)[TERMS], const Fp* const (&b)[TERMS]) {
    uint32_t e[24], o[24], x = b[0]->w[0];
#pragma unroll
    for (int j = 0; j < 12; j += 2) mul_wide(o[j], o[j + 1], a[0]->w[j + 1], x);
#pragma unroll
    for (int j = 0; j < 12; j += 2) {
        e[j] = m.w[j], e[j + 1] = m.w[j + 1];
        if (j == 0)
            mad_first(e[j], e[j + 1], a[0]->w[j], x);
        else
            mad_next(e[j], e[j + 1], a[0]->w[j], x);
    }
    o[11] = add_carry(o[11]);
#pragma unroll
    for (int t = 1; t < TERMS; t++)
        add_row<12, false, false>(e, o, LimbsOf{a[t]->w}, b[t]->w[0]);
    x = e[0];
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
    Fp r = upper_half(e, o);
    add_words<12>(r.w, r.w, m.w + 12);
    return r;
}
// Adds p 2^383 = 4.92 p^2, from limb 11 up: makes values above -4 p^2 positive.
FN void add_half(WideProduct& t) {
    uint32_t half[13];
    half[0] = FP_MULTIPLES[0][0] << 31;
#pragma unroll
    for (int i = 1; i < 12; i++)
        half[i] = FP_MULTIPLES[0][i - 1] >> 1 | FP_MULTIPLES[0][i] << 31;
    half[12] = FP_MULTIPLES[0][11] >> 1;
    add_words<13>(t.w + 11, t.w + 11, half);
}
// a + p if a is negative, for |a| < 2 p represented mod R.
FN Fp add_modulus_if_negative(const Fp& a) {
    const uint32_t negative = uint32_t(int32_t(a.w[11]) >> 31);
    Fp r;
#pragma unroll
    for (int i = 0; i < 12; i++) r.w[i] = Fp::modulus(i) & negative;
    add_words<12>(r.w, r.w, a.w);
    return r;
}
// a b, for a and b below 2 p. c0: |T| < 4 p^2 = 0.407 p R. With p R / 2 added it is between 0 and
// 0.907 p R, so the result is below 1.91 p. c1: 0 <= T < 8 p^2, so the result is below 1.82 p.
template <class F2> FN F2 mul_dot(const F2& a, const F2& b) {
    const SignedDifference da = difference(a.c0, a.c1), db = difference(b.c0, b.c1);
    WideProduct m = wide_dot<1>({&b.c1}, {&da.limbs});
    subtract_if(da.negative, m.w + 12, b.c1);
    F2 r;
    const Fp sum = add_lazy(b.c0, b.c1);
    r.c1 = dot_onto<1>(m, {&a.c1}, {&sum});
    add_half(m);
    subtract_if(db.negative, m.w + 12, a.c0);
    r.c0 = dot_onto<1>(m, {&a.c0}, {&db.limbs});
    ASSERT_RANGE(is_below<2>(r.c0) && is_below<2>(r.c1));
    return r;
}
// a b - c d, all below 2 p. Both |T| < 8 p^2 = 0.814 p R: between -0.82 p and 1.82 p before p is
// added to negative ones.
template <class F2> FN F2 mul_sub_mul_dot(const F2& a, const F2& b, const F2& c, const F2& d) {
    WideProduct m;
    {
        const SignedDifference da = difference(a.c0, a.c1), dc = difference(c.c1, c.c0);
        m = wide_dot<2>({&b.c1, &d.c1}, {&da.limbs, &dc.limbs});
        subtract_if(da.negative, m.w + 12, b.c1);
        subtract_if(dc.negative, m.w + 12, d.c1);
    }
    F2 r;
    {
        const Fp sum = add_lazy(b.c0, b.c1);
        const SignedDifference minus = difference(zero<Fp>(), add_lazy(d.c0, d.c1));
        WideProduct t = m;
        subtract_if(minus.negative, t.w + 12, c.c1);
        r.c1 = add_modulus_if_negative(dot_onto<2>(t, {&a.c1, &c.c1}, {&sum, &minus.limbs}));
    }
    const SignedDifference db = difference(b.c0, b.c1), dd = difference(d.c1, d.c0);
    subtract_if(db.negative, m.w + 12, a.c0);
    subtract_if(dd.negative, m.w + 12, c.c0);
    r.c0 = add_modulus_if_negative(dot_onto<2>(m, {&a.c0, &c.c0}, {&db.limbs, &dd.limbs}));
    ASSERT_RANGE(is_below<2>(r.c0) && is_below<2>(r.c1));
    return r;
}
