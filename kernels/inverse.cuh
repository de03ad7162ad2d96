// Inversion by the binary GCD with approximations (T. Pornin, eprint 2020/972) on 32-bit limbs, and
// batch inversion by Montgomery's trick.
//
// GCD_STEPS halvings are decided on the top 33 and low 31 bits of a and b, then applied to all
// limbs as one 2 x 2 matrix. The only data-dependent branch is the stop, for random elements of Fp
// after about 18 rounds.
//
// Signs. Within a round the matrix is (f0, -g0; -f1, g1) up to one sign, with f, g >= 0: steps only
// add, so two 16-bit entries share a word for half a round. The same holds for the cofactors: a = x
// s U and b = -x s V mod q for one sign s, and U, V only grow, unless an approximation misjudges
// which number is larger; then V changes its sign.
//
// Ranges. A round maps (U, V) to (f U + g V + m q) / 2^32 with f + g <= 2^30 and m < 2^32, which is
// below q + max(U, V) / 4: always below 1.34 q, and below 2 q when negated.
#pragma once
#include "field.cuh"

struct GcdMatrix {
    uint32_t f0, g0, f1, g1; // f0 + g0 <= 2^GCD_STEPS, f1 + g1 <= 2^GCD_STEPS
};

// Halves (a, b) GCD_STEPS / 2 times; r holds g0 : f0 and t holds g1 : f1, 16 bits each.
FN void gcd_half_round(uint64_t& a, uint64_t& b, uint32_t& r, uint32_t& t) {
    r = 1, t = 1u << 16;
#pragma unroll
    for (int step = 0; step < GCD_STEPS / 2; step++) {
        const bool odd = a & 1;
        if (odd && a < b) {
            const uint64_t a_was = a;
            const uint32_t r_was = r;
            a = b, b = a_was, r = t, t = r_was;
        }
        if (odd) a -= b, r += t;
        a >>= 1, t <<= 1;
    }
}
// The matrix of a round, from the leading and low bits of a and b, aligned to the longer one.
template <class P> FN GcdMatrix gcd_round(const FieldElement<P>& a, const FieldElement<P>& b) {
    uint32_t a_hi = a.w[1], a_mid = a.w[0], b_hi = b.w[1], b_mid = b.w[0];
    bool exact = true; // both fit in 64 bits
#pragma unroll
    for (int i = 2; i < P::LIMBS; i++) {
        const bool used = (a.w[i] | b.w[i]) != 0;
        a_hi = used ? a.w[i] : a_hi, a_mid = used ? a.w[i - 1] : a_mid;
        b_hi = used ? b.w[i] : b_hi, b_mid = used ? b.w[i - 1] : b_mid;
        exact = exact && !used;
    }
    const uint32_t shift = exact ? 0 : leading_zeros(a_hi | b_hi);
    const uint32_t low = exact ? ~0u : 0x7fffffffu;
    uint64_t x = uint64_t(funnel_left(a_mid, a_hi, shift)) << 32;
    uint64_t y = uint64_t(funnel_left(b_mid, b_hi, shift)) << 32;
    x |= (a_mid << shift & ~low) | (a.w[0] & low);
    y |= (b_mid << shift & ~low) | (b.w[0] & low);
    uint32_t r, t, r2, t2;
    gcd_half_round(x, y, r, t);
    gcd_half_round(x, y, r2, t2);
    const uint32_t f0 = r & 0xffff, g0 = r >> 16, f1 = t & 0xffff, g1 = t >> 16;
    const uint32_t h0 = r2 & 0xffff, k0 = r2 >> 16, h1 = t2 & 0xffff, k1 = t2 >> 16;
    return {h0 * f0 + k0 * f1, h0 * g0 + k0 * g1, h1 * f0 + k1 * f1, h1 * g0 + k1 * g1};
}
// f x + g y in even and odd pairs of limbs: f + g <= 2^30, so no pair overflows.
template <int N>
FN void gcd_pairs(uint32_t* e, uint32_t* o, uint32_t f, const uint32_t* x, uint32_t g,
                  const uint32_t* y) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
        mul_wide(e[j], e[j + 1], x[j], f);
        e[j] = mad_lo_cc(y[j], g, e[j]);
        e[j + 1] = madc_hi(y[j], g, e[j + 1]);
        mul_wide(o[j], o[j + 1], x[j + 1], f);
        o[j] = mad_lo_cc(y[j + 1], g, o[j]);
        o[j + 1] = madc_hi(y[j + 1], g, o[j + 1]);
    }
}
// r = |f a - g b| / 2^GCD_STEPS, given R - b. Returns all ones if f a - g b is negative, else 0.
template <class P>
FN uint32_t gcd_shrink(FieldElement<P>& r, uint32_t f, const FieldElement<P>& a, uint32_t g,
                       const FieldElement<P>& minus_b) {
    constexpr int N = P::LIMBS;
    uint32_t e[N], o[N], t[N + 1];
    gcd_pairs<N>(e, o, f, a.w, g, minus_b.w);
    t[0] = e[0];
    t[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < N; k++) t[k] = addc_cc(e[k], o[k - 1]);
    t[N] = addc(o[N - 1], 0) - g;
    const uint32_t mask = uint32_t(int32_t(t[N]) >> 31);
#pragma unroll
    for (int k = 0; k < N; k++) r.w[k] = funnel_right(t[k], t[k + 1], GCD_STEPS) ^ mask;
    r.w[0] = sub_cc(r.w[0], mask);
#pragma unroll
    for (int k = 1; k < N; k++) r.w[k] = subc_cc(r.w[k], mask);
    return mask;
}
// (f u + g v) / 2^32 mod q.
template <class P>
FN FieldElement<P> gcd_follow(uint32_t f, const FieldElement<P>& u, uint32_t g,
                              const FieldElement<P>& v) {
    constexpr int N = P::LIMBS;
    uint32_t e[N], o[N];
    gcd_pairs<N>(e, o, f, u.w, g, v.w);
    const uint32_t m = e[0] * P::INVERSE_NEG;
    mad_first(e[0], e[1], FieldElement<P>::modulus(0), m);
#pragma unroll
    for (int j = 2; j < N; j += 2) mad_next(e[j], e[j + 1], FieldElement<P>::modulus(j), m);
    o[N - 1] = addc(o[N - 1], 0);
    mad_first(o[0], o[1], FieldElement<P>::modulus(1), m);
#pragma unroll
    for (int j = 2; j < N; j += 2) mad_next(o[j], o[j + 1], FieldElement<P>::modulus(j + 1), m);
    FieldElement<P> r;
    r.w[0] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 1; k < N - 1; k++) r.w[k] = addc_cc(e[k + 1], o[k]);
    r.w[N - 1] = addc(o[N - 1], 0);
    return r;
}
// a^-1 R^2 mod q, which maps R x to R x^-1 and 0 to 0. Requires what canonical(a) requires; the
// result is canonical. The running time depends on a.
template <class P> FN FieldElement<P> inverse(const FieldElement<P>& x) {
    using F = FieldElement<P>;
    F a = canonical(x), b = multiple<1, F>(), u = F::zero(), v = F::zero();
    u.w[0] = 1;
    int rounds = 0;
    uint32_t sign = 0;
#pragma unroll 1
    while (!is_zero(a) && rounds < P::GCD_ROUNDS_MAX) {
        const GcdMatrix m = gcd_round(a, b);
        F minus_b;
        sub_words<F::N>(minus_b.w, F::zero().w, b.w);
        const F a_was = a, u_was = u;
        const uint32_t below_a = gcd_shrink(a, m.f0, a_was, m.g0, minus_b);
        const uint32_t below_b = gcd_shrink(b, m.f1, a_was, m.g1, minus_b);
        u = gcd_follow(m.f0, u_was, m.g0, v);
        v = gcd_follow(m.f1, u_was, m.g1, v);
        v = blend(below_a ^ below_b, v, neg_lazy<2>(v));
        sign ^= below_a;
        rounds++;
    }
    ASSERT_RANGE(is_zero(a));
    v = blend(sign, v, neg_lazy<2>(v));
    F scale;
#pragma unroll
    for (int i = 0; i < F::N; i++) scale.w[i] = P::gcd_scale(rounds, i);
    return canonical(mul(v, scale));
}

// Inverts the canonical elements at values[i stride], 0 <= i < n, in place by one inversion and
// three products each (P. Montgomery's trick); zeros remain zero. scratch has the same length and
// must not overlap values. One thread owns the elements; `stride` lets those of a warp interleave.
template <class F> FN void inverse_batch(F* values, F* scratch, uint32_t n, uint32_t stride) {
    F product = one<F>();
    for (uint32_t i = 0; i < n; i++) {
        const F value = values[size_t(i) * stride];
        scratch[size_t(i) * stride] = product;
        if (!is_zero(value)) product = canonical(mul(product, value));
    }
    F inverted = inverse(product);
    for (uint32_t i = n; i-- > 0;) {
        const size_t at = size_t(i) * stride;
        const F value = values[at];
        if (is_zero(value)) continue;
        values[at] = canonical(mul(inverted, scratch[at]));
        inverted = canonical(mul(inverted, value));
    }
}
