// One inversion by four adjacent lanes, for lower latency if few inversions block other work.
//
// The four lanes hold a, b, u and v of inverse.cuh. Each applies one row of a round's matrix to a
// pair of them: lanes 0 and 2 the first row, lanes 1 and 3 the second. a and b are divided by
// 2^GCD_STEPS and made positive, u and v are divided by 2^32 mod q.
#pragma once
#include "field2.cuh"
#include "warp.cuh"

constexpr uint32_t GCD_LANES = 4;

// The common part of gcd_shrink and gcd_follow. `number` is all ones for a and b, of which the
// second is subtracted; `negative` becomes all ones if their difference is below 0.
template <class P>
FN FieldElement<P> gcd_row(uint32_t f, const FieldElement<P>& x, uint32_t g,
                           const FieldElement<P>& y, uint32_t number, uint32_t& negative) {
    constexpr int N = P::LIMBS;
    FieldElement<P> minus_y;
    sub_words<N>(minus_y.w, FieldElement<P>::zero().w, y.w);
    uint32_t e[N], o[N], t[N + 1];
    gcd_pairs<N>(e, o, f, x.w, g, blend(number, minus_y, y).w);
    const uint32_t m = (e[0] * P::INVERSE_NEG) & ~number;
    mad_first(e[0], e[1], FieldElement<P>::modulus(0), m);
#pragma unroll
    for (int j = 2; j < N; j += 2) mad_next(e[j], e[j + 1], FieldElement<P>::modulus(j), m);
    o[N - 1] = addc(o[N - 1], 0);
    mad_first(o[0], o[1], FieldElement<P>::modulus(1), m);
#pragma unroll
    for (int j = 2; j < N; j += 2) mad_next(o[j], o[j + 1], FieldElement<P>::modulus(j + 1), m);
    t[0] = e[0];
    t[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < N; k++) t[k] = addc_cc(e[k], o[k - 1]);
    t[N] = addc(o[N - 1], 0) - (g & number);
    negative = uint32_t(int32_t(t[N]) >> 31) & number;
    FieldElement<P> r;
#pragma unroll
    for (int k = 0; k < N; k++)
        r.w[k] = funnel_left(t[k], t[k + 1], (32 - GCD_STEPS) & number) ^ negative;
    r.w[0] = sub_cc(r.w[0], negative);
#pragma unroll
    for (int k = 1; k < N; k++) r.w[k] = subc_cc(r.w[k], negative);
    return r;
}
// Returns inverse(x) in lane 3 of each group of four; all four pass the same x. All lanes of the
// warp take part until the last group is done: once a is 0, a round changes only the scale. Not
// inlined, since it is long and its callers are short of registers.
NOINLINE Fp inverse_split(Fp x) {
    const uint32_t lane = lane_index() % GCD_LANES;
    const uint32_t even = 0 - uint32_t(lane % 2 == 0), number = 0 - uint32_t(lane < 2);
    Fp one_word = Fp::zero();
    one_word.w[0] = 1;
    Fp own = blend(number, canonical(x), one_word);
    own = blend(even, own, blend(number, multiple<1, Fp>(), Fp::zero()));
    int rounds = 0;
    uint32_t sign = 0;
#pragma unroll 1
    while (__any_sync(ALL_LANES, lane == 0 && !is_zero(own)) && rounds < FP_GCD_ROUNDS_MAX) {
        const Fp other = shuffle_xor(own, 1);
        const Fp first = blend(even, own, other), second = blend(even, other, own);
        const GcdMatrix m = gcd_round(first, second); // in lanes 0 and 1
        const int row = int(lane % 2);
        const uint32_t f = __shfl_sync(ALL_LANES, row ? m.f1 : m.f0, row, GCD_LANES);
        const uint32_t g = __shfl_sync(ALL_LANES, row ? m.g1 : m.g0, row, GCD_LANES);
        uint32_t negative;
        own = gcd_row(f, first, g, second, number, negative);
        sign ^= negative;
        const uint32_t differ = negative ^ __shfl_xor_sync(ALL_LANES, negative, 1);
        const uint32_t kept = __shfl_xor_sync(ALL_LANES, differ, 2);
        own = blend(lane == 3 ? kept : ~0u, own, neg_lazy<2>(own));
        rounds++;
    }
    sign = __shfl_sync(ALL_LANES, sign, 0, GCD_LANES);
    const Fp v = blend(sign, own, neg_lazy<2>(own));
    Fp scale;
#pragma unroll
    for (int i = 0; i < Fp::N; i++) scale.w[i] = FP_GCD_SCALE[rounds][i];
    return canonical(mul(v, scale));
}
FN Fp2 inverse_split(const Fp2& a) {
    const Fp norm = inverse_split(mul_add_mul(a.c0, a.c0, a.c1, a.c1));
    return {canonical(mul(a.c0, norm)), canonical(mul(neg_lazy<2>(a.c1), norm))};
}
