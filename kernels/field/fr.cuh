// Montgomery products in Fr. Ranges: see ../field.cuh.
//
// r is 1 and 2^32 - 1 in its two lowest limbs. To drop the lowest limb x therefore takes the factor
// m = -x mod 2^32, and
//   x + m r = 2^32 (x + [x != 0]) + 2^64 (m - [x != 0]) + m (r_2 2^64 + ... + r_7 2^224):
// six products of limbs instead of eight, and none for m. 112 products in all.
//
// Constants with kept multiples. A factor w that is known long before may be kept as K multiples
// W_k = w 2^(32 (N + L k)) mod r, L = 8 / K, canonical. Cut a into K pieces of L limbs,
// a = sum of a_k 2^(32 L k): then T = sum of a_k W_k is a w 2^(32 N) mod r and has about 8 + L
// limbs, and N steps of reduction finish it: 64 + 6 N products. N = L for K = 1, which is
// Montgomery's product with W_0 = w R, and N = L + 1 for K > 1: 112, 94, 82, 76 for K = 1, 2, 4, 8.
//
// Bounds. T < K 2^(32 L) r as a_k < 2^(32 L), and N steps add less than 2^(32 N) r. So the result is
// below r (1 + K 2^(32 (L - N))): 2 r for K = 1 (or r + a b / R), r (1 + 2^-29) for K > 1.
// Accumulators: after a step they hold less than (K + 1) r (1 + 2^-31), before it at most 2^32
// times that, 4.1 2^288: a tenth limb, `top`, is needed for K > 1. For K = 2 it is 1.36 2^288, and
// the carries that are not looked at cannot arise: after the products of a row it is 0.91 2^288,
// and the even half of m r adds 2^256. For K > 2 the same holds for the first two products of a
// row and the even half of the third.
#pragma once
#include "product.cuh"

// e + 2^32 o + 2^288 top -> (that + m r) / 2^32; the odd accumulator becomes the even one. TENTH:
// what passes 2^288 counts; EVEN_TENTH: also what the even half of m r carries there.
template <bool TENTH, bool EVEN_TENTH>
FN void fr_drop_limb(uint32_t* e, uint32_t* o, uint32_t top) {
    const uint32_t x = e[0];
    const uint32_t m = sub_cc(opaque_zero(), x), h = subc(m, 0);
    add_cc(x, ~0u); // carry = [x != 0]
    e[1] = addc_cc(e[1], x);
#pragma unroll
    for (int j = 2; j < 8; j += 2) mad_next(e[j], e[j + 1], Fr::modulus(j), m);
    if (EVEN_TENTH) {
        o[7] = addc_cc(o[7], 0);
        top = addc(top, 0);
    } else {
        o[7] = addc(o[7], 0);
    }
    o[0] = add_cc(o[0], e[1]);
    o[1] = addc_cc(o[1], h);
#pragma unroll
    for (int j = 2; j < 8; j += 2) mad_next(o[j], o[j + 1], Fr::modulus(j + 1), m);
    if (TENTH) top = addc(top, 0);
#pragma unroll
    for (int j = 0; j < 6; j++) {
        const uint32_t next = e[j + 2];
        e[j] = o[j];
        o[j] = next;
    }
    e[6] = o[6], e[7] = o[7], o[6] = 0, o[7] = top;
}
FN Fr fr_result(const uint32_t* e, const uint32_t* o) {
    Fr r;
    r.w[0] = e[0];
    r.w[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int i = 2; i < 7; i++) r.w[i] = addc_cc(e[i], o[i - 1]);
    r.w[7] = addc(e[7], o[6]);
    return r;
}

// a w, lazily reduced, from w's kept multiples: w(k, j) is limb j of W_k.
template <int K, class Multiples> FN Fr mul_constant(const Fr& a, const Multiples& w) {
    static_assert(K == 1 || K == 2 || K == 4 || K == 8);
    constexpr int L = 8 / K, N = L + (K > 1);
    uint32_t e[8], o[8];
#pragma unroll
    for (int step = 0; step < N; step++) {
        uint32_t top = 0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (step >= L) continue;
            const uint32_t x = a.w[k * L + step];
            if (step == 0 && k == 0) {
                first_row<8>(e, o, [&](int j) { return w(k, j); }, x);
                continue;
            }
            mad_first(e[0], e[1], w(k, 0), x);
#pragma unroll
            for (int j = 2; j < 8; j += 2) mad_next(e[j], e[j + 1], w(k, j), x);
            if (k > 2) {
                o[7] = addc_cc(o[7], 0);
                top = addc(top, 0);
            } else {
                o[7] = addc(o[7], 0);
            }
            mad_first(o[0], o[1], w(k, 1), x);
#pragma unroll
            for (int j = 2; j < 8; j += 2) mad_next(o[j], o[j + 1], w(k, j + 1), x);
            if (k > 1) top = addc(top, 0);
        }
        fr_drop_limb<(K > 1), (K > 2)>(e, o, top);
    }
    return fr_result(e, o);
}
// K multiples in memory or registers, one after the other.
struct KeptMultiples {
    const Fr* multiples;
    FN uint32_t operator()(int k, int j) const { return multiples[k].w[j]; }
};

FN Fr mul(const Fr& a, const Fr& b) {
    ASSERT_RANGE(ratio(a) * ratio(b) < slack<Fr>() * (1 + 1e-9));
    return mul_constant<1>(a, KeptMultiples{&b});
}
// t / 2^256, below t / 2^256 + r.
FN Fr reduce(const Wide<FrParams>& t) {
    uint32_t e[8], o[8];
#pragma unroll
    for (int i = 0; i < 8; i++) e[i] = t.w[i], o[i] = 0;
#pragma unroll
    for (int step = 0; step < 8; step++) fr_drop_limb<false, false>(e, o, 0);
    Fr r = fr_result(e, o);
    add_words<8>(r.w, r.w, t.w + 8);
    return r;
}
FN Fr sqr(const Fr& a) {
    ASSERT_RANGE(ratio(a) * ratio(a) < slack<Fr>() * (1 + 1e-9));
    return reduce(square(a));
}
