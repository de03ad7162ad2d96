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
// Bounds. T < K 2^(32 L) r as a_k < 2^(32 L), and N steps add less than 2^(32 N) r. So the result
// is below r (1 + K 2^(32 (L - N))): 2 r for K = 1 (or r + a b / R), r (1 + 2^-29) for K > 1.
// Accumulators: after a step they hold less than (K + 1) r (1 + 2^-31), before it at most 2^32
// times that, 4.1 2^288: a tenth limb, `top`, is needed for K > 1. For K = 2 it is 1.36 2^288, and
// the carries that are not looked at cannot arise: after the products of a row it is 0.91 2^288,
// and the even half of m r adds 2^256. For K > 2 the same holds for the first two products of a
// row and the even half of the third.
#pragma once
#include "product.cuh"

// Nine limbs and, while a row is added, a tenth.
struct FrAccumulator {
    uint32_t e[8], o[8]; // limbs 0 to 7 and 1 to 8
    uint32_t pending;    // joins o[7] with the next carry: no move makes a pair of it
    uint32_t ninth;      // of limb 9, before a limb is dropped
};
// The chain of w's even or odd limbs, `from` and up, times x.
template <int ODD, class W>
FN void fr_chain(uint32_t* pairs, const W& w, uint32_t x, int from = 0) {
    const int first = from + ((from ^ ODD) & 1);
#pragma unroll
    for (int j = ODD; j < 8; j += 2) {
        if (j < first) continue;
        if (j == first)
            mad_first(pairs[j - ODD], pairs[j - ODD + 1], w(j), x);
        else
            mad_next(pairs[j - ODD], pairs[j - ODD + 1], w(j), x);
    }
}
// t += w x, the `kept`th product of its row, which says where carries can arise (above). The first
// one's odd chain ends in a fresh pair.
//
// Where K > 2, ptxas would do some of these carries on the multiplier; where it is 2 and a thread
// has eight elements, hiding the zero spills registers.
template <int K, class W>
FN void fr_add_row(FrAccumulator& t, const W& w, uint32_t x, int kept) {
    if (kept == 0) {
        fr_chain<1>(t.o, w, x);
        fr_chain<0>(t.e, w, x);
        t.o[7] = addc(t.o[7], t.pending);
        t.pending = 0;
        return;
    }
    fr_chain<0>(t.e, w, x);
    if (kept > 2) {
        t.o[7] = addc_cc(t.o[7], 0);
        t.ninth = addc(t.ninth, 0);
    } else {
        t.o[7] = K > 2 ? add_carry(t.o[7]) : addc(t.o[7], 0);
    }
    fr_chain<1>(t.o, w, x);
    if (kept > 1) t.ninth = addc(t.ninth, 0);
}
// t -> (t + m r) / 2^32; the odd accumulator becomes the even one. TENTH: what passes 2^288 counts;
// EVEN_TENTH: also what the even half of m r carries there.
template <bool TENTH, bool EVEN_TENTH> FN void fr_drop_limb(FrAccumulator& t) {
    const uint32_t x = t.e[0];
    const uint32_t m = sub_cc(opaque_zero(), x), h = subc(m, 0);
    add_cc(x, ~0u); // carry = [x != 0]
    t.e[1] = addc_cc(t.e[1], x);
#pragma unroll
    for (int j = 2; j < 8; j += 2) mad_next(t.e[j], t.e[j + 1], Fr::modulus(j), m);
    if (EVEN_TENTH) {
        t.o[7] = addc_cc(t.o[7], t.pending);
        t.ninth = addc(t.ninth, 0);
    } else {
        t.o[7] = addc(t.o[7], t.pending);
    }
    t.o[0] = add_cc(t.o[0], t.e[1]);
    t.o[1] = addc_cc(t.o[1], h);
#pragma unroll
    for (int j = 2; j < 8; j += 2) mad_next(t.o[j], t.o[j + 1], Fr::modulus(j + 1), m);
    if (TENTH) t.ninth = EVEN_TENTH ? add_carry(t.ninth) : addc(t.ninth, 0);
    t.pending = t.ninth, t.ninth = 0;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const uint32_t next = j < 6 ? t.e[j + 2] : 0;
        t.e[j] = t.o[j];
        t.o[j] = next;
    }
}
FN Fr fr_result(const FrAccumulator& t) {
    Fr r;
    r.w[0] = t.e[0];
    r.w[1] = add_cc(t.e[1], t.o[0]);
#pragma unroll
    for (int i = 2; i < 7; i++) r.w[i] = addc_cc(t.e[i], t.o[i - 1]);
    r.w[7] = addc(t.e[7], t.o[6]);
    return r;
}

// a w, lazily reduced, from w's kept multiples: w(k, j) is limb j of W_k.
template <int K, class Multiples> FN Fr mul_constant(const Fr& a, const Multiples& w) {
    static_assert(K == 1 || K == 2 || K == 4 || K == 8);
    constexpr int L = 8 / K, N = L + (K > 1);
    FrAccumulator t;
    t.pending = t.ninth = 0;
#pragma unroll
    for (int step = 0; step < N; step++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (step >= L) continue;
            const uint32_t x = a.w[k * L + step];
            const auto row = [&](int j) { return w(k, j); };
            if (step == 0 && k == 0)
                first_row<8>(t.e, t.o, row, x);
            else
                fr_add_row<K>(t, row, x, k);
        }
        fr_drop_limb<(K > 1), (K > 2)>(t);
    }
    return fr_result(t);
}
// K multiples in memory or registers, one after the other.
struct KeptMultiples {
    const Fr* multiples;
    FN uint32_t operator()(int k, int j) const { return multiples[k].w[j]; }
};

FN Fr mul(const Fr& a, const Fr& b) {
    ASSERT_RANGE(ratio(a) * ratio(b) < slack<Fr>() * (1 + 1e-9));
    // A row of b and one of r are added to what is below b + r: 2^32 (b + r) has nine limbs.
    ASSERT_RANGE(ratio(b) < 1.2);
    const Fr r = mul_constant<1>(a, KeptMultiples{&b});
    ASSERT_RANGE(is_below<2>(r));
    return r;
}
// As Fp's: 36 + 48 products of limbs. a < 2^255, so that 2 a has eight limbs; rows of 2 a reach
// 2^32 (2 a + r), 1.5 2^288, in either half, and the tenth limb is needed.
FN Fr sqr(const Fr& a) {
    ASSERT_RANGE(a.w[7] >> 31 == 0);
    FrAccumulator t;
    t.pending = t.ninth = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const SquareRow<8> row = {a.w, i};
        if (i == 0) {
            first_row<8>(t.e, t.o, row, a.w[0]);
        } else {
            fr_chain<0>(t.e, row, a.w[i], i);
            t.o[7] = i < 7 ? addc(t.pending, 0) : t.pending; // row 7 has no even limb
            t.pending = 0;
            fr_chain<1>(t.o, row, a.w[i], i);
            t.ninth = addc(0, 0);
        }
        fr_drop_limb<true, true>(t);
    }
    return fr_result(t);
}
// a / 2^bits for 1 <= bits <= 32, of any a: a limb is dropped of a 2^(32 - bits), so that it is
// below r (1 + 2.21 / 2^bits).
FN Fr divide_by_power_of_two(const Fr& a, uint32_t bits) {
    FrAccumulator t;
    t.pending = t.ninth = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        t.e[i] = funnel_left(i ? a.w[i - 1] : 0, a.w[i], 32 - bits);
        t.o[i] = 0;
    }
    t.o[7] = funnel_left(a.w[7], 0, 32 - bits);
    fr_drop_limb<false, false>(t);
    return fr_result(t);
}
FN Fr to_montgomery(const Fr& a) {
    Fr square;
#pragma unroll
    for (int i = 0; i < 8; i++) square.w[i] = FR_RADIX_SQUARED[i];
    return canonical(mul(a, square));
}
FN Fr from_montgomery(const Fr& a) {
    FrAccumulator t;
    t.pending = t.ninth = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) t.e[i] = a.w[i], t.o[i] = 0;
#pragma unroll
    for (int step = 0; step < 8; step++) fr_drop_limb<false, false>(t);
    return canonical(fr_result(t));
}
