// Montgomery products in Fr. Ranges: see ../field.cuh.
//
// r has 1 and 2^32 - 1 in its two lowest limbs. The factor that drops the lowest limb x is
// therefore m = -x mod 2^32, and
//   x + m r = 2^32 (x + [x != 0]) + 2^64 (m - [x != 0]) + m (r_2 2^64 + ... + r_7 2^224):
// six limb products instead of eight, and none for m. 112 products in all.
//
// Constants with precomputed multiples. A factor w known in advance may be stored as K multiples
// W_k = w 2^(32 (N + L k)) mod r, L = 8 / K, canonical. Split a into K pieces of L limbs, a = sum
// of a_k 2^(32 L k). Then T = sum of a_k W_k is a w 2^(32 N) mod r and has about 8 + L limbs, and N
// reduction steps finish it: 64 + 6 N products. N = L for K = 1, which is Montgomery's product with
// W_0 = w R, and N = L + 1 for K > 1: 112, 94, 82, 76 products for K = 1, 2, 4, 8.
//
// Bounds. T < K 2^(32 L) r since a_k < 2^(32 L), and N steps add less than 2^(32 N) r. So the
// result is below r (1 + K 2^(32 (L - N))): 2 r for K = 1 (or r + a b / R), r (1 + 2^-29) for K >
// 1. After a step, accumulators hold less than (K + 1) r (1 + 2^-31); before it at most 2^32 times
// that, 4.1 2^288, so K > 1 needs a tenth limb. For K = 2 the bound is 1.36 2^288, and the
// unchecked carries cannot occur: after the products of a row it is 0.91 2^288, and the even half
// of m r adds 2^256. For K > 2 the same holds for the first two products of a row and the even half
// of the third.
#pragma once
#include "product.cuh"

// Nine limbs, plus a tenth while a row is added.
struct FrAccumulator {
    uint32_t e[8], o[8]; // limbs 0 to 7 and 1 to 8
    uint32_t pending;    // added to o[7] with the next carry: saves a move into a register pair
    uint32_t ninth;      // carry into limb 9, before a limb is dropped
};
// Adds x times the even or odd limbs of w from limb `from` up, as one chain.
template <int ODD, class W>
FN void fr_chain(uint32_t* pairs, const W& w, uint32_t x, int from = 0) {
    const int first = from + ((from ^ ODD) & 1);
    UNROLL for (int j = ODD; j < 8; j += 2) {
        if (j < first) continue;
        if (j == first)
            mad_first(pairs[j - ODD], pairs[j - ODD + 1], w(j), x);
        else
            mad_next(pairs[j - ODD], pairs[j - ODD + 1], w(j), x);
    }
}
// t += w x for multiple number `multiple` of its row, which decides where carries can occur (see
// above). The odd chain of the first one ends in a fresh pair.
//
// For K > 2 the zero is hidden, since ptxas would do some of these carries on the multiplier. For
// K = 2 and eight elements per thread, hiding it spills registers.
template <int K, class W>
FN void fr_add_row(FrAccumulator& t, const W& w, uint32_t x, int multiple) {
    if (multiple == 0) {
        fr_chain<1>(t.o, w, x);
        fr_chain<0>(t.e, w, x);
        t.o[7] = addc(t.o[7], t.pending);
        t.pending = 0;
        return;
    }
    fr_chain<0>(t.e, w, x);
    if (multiple > 2) {
        t.o[7] = addc_cc(t.o[7], 0);
        t.ninth = addc(t.ninth, 0);
    } else {
        t.o[7] = K > 2 ? add_carry(t.o[7]) : addc(t.o[7], 0);
    }
    fr_chain<1>(t.o, w, x);
    if (multiple > 1) t.ninth = addc(t.ninth, 0);
}
// t -> (t + m r) / 2^32; the odd accumulator becomes the even one. TENTH: carries past 2^288 are
// kept; EVEN_TENTH: also those of the even half of m r.
template <bool TENTH, bool EVEN_TENTH> FN void fr_drop_limb(FrAccumulator& t) {
    const uint32_t x = t.e[0];
    const uint32_t m = sub_cc(opaque_zero(), x), h = subc(m, 0);
    add_cc(x, ~0u); // carry = [x != 0]
    t.e[1] = addc_cc(t.e[1], x);
    UNROLL for (int j = 2; j < 8; j += 2) mad_next(t.e[j], t.e[j + 1], Fr::modulus(j), m);
    if (EVEN_TENTH) {
        t.o[7] = addc_cc(t.o[7], t.pending);
        t.ninth = addc(t.ninth, 0);
    } else {
        t.o[7] = addc(t.o[7], t.pending);
    }
    t.o[0] = add_cc(t.o[0], t.e[1]);
    t.o[1] = addc_cc(t.o[1], h);
    UNROLL for (int j = 2; j < 8; j += 2) mad_next(t.o[j], t.o[j + 1], Fr::modulus(j + 1), m);
    if (TENTH) t.ninth = EVEN_TENTH ? add_carry(t.ninth) : addc(t.ninth, 0);
    t.pending = t.ninth, t.ninth = 0;
    UNROLL for (int j = 0; j < 8; j++) {
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

// a w, lazily reduced, from w's precomputed multiples: w(k, j) is limb j of W_k.
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
// K consecutive multiples in memory or registers.
struct PrecomputedMultiples {
    const Fr* multiples;
    FN uint32_t operator()(int k, int j) const { return multiples[k].w[j]; }
};

FN Fr mul(const Fr& a, const Fr& b) {
    ASSERT_RANGE(ratio(a) * ratio(b) < slack<Fr>() * (1 + 1e-9));
    // A row of b and one of r are added to a value below b + r: 2^32 (b + r) has nine limbs.
    ASSERT_RANGE(ratio(b) < 1.2);
    const Fr r = mul_constant<1>(a, PrecomputedMultiples{&b});
    ASSERT_RANGE(is_below<2>(r));
    return r;
}
// 36 + 48 limb products, by the method of Fp's sqr. a < 2^255, so 2 a has eight limbs. Rows of 2 a
// reach 2^32 (2 a + r) = 1.5 2^288 in either half, so the tenth limb is needed.
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
// a / 2^bits for 1 <= bits <= 32 and any a: drops one limb of a 2^(32 - bits), so the result is
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
