// Elements of prime fields, constants, operations without a product. Ranges: see ../field.cuh.
#pragma once
#include "../params/bls12_381.cuh"

struct FpParams {
    static constexpr int LIMBS = 12;
    static constexpr uint32_t INVERSE_NEG = FP_INVERSE_NEG;
    static constexpr int GCD_ROUNDS_MAX = FP_GCD_ROUNDS_MAX;
    static FN uint32_t multiple(int k, int i) { return FP_MULTIPLES[k - 1][i]; }
    static FN uint32_t one(int i) { return FP_ONE[i]; }
    static FN uint32_t radix_squared(int i) { return FP_RADIX_SQUARED[i]; }
    static FN uint32_t gcd_scale(int rounds, int i) { return FP_GCD_SCALE[rounds][i]; }
};
struct FrParams {
    static constexpr int LIMBS = 8;
    static constexpr uint32_t INVERSE_NEG = FR_INVERSE_NEG;
    static constexpr int GCD_ROUNDS_MAX = FR_GCD_ROUNDS_MAX;
    static FN uint32_t multiple(int k, int i) { return FR_MULTIPLES[k - 1][i]; }
    static FN uint32_t one(int i) { return FR_ONE[i]; }
    static FN uint32_t radix_squared(int i) { return FR_RADIX_SQUARED[i]; }
    static FN uint32_t gcd_scale(int rounds, int i) { return FR_GCD_SCALE[rounds][i]; }
};

// An element of the prime field with parameters P. Aligned for 16-byte loads and stores.
template <class P> struct alignas(16) FieldElement {
    static constexpr int N = P::LIMBS;
    uint32_t w[N];

    // Limb i of k times the modulus.
    static FN uint32_t modulus(int i, int k = 1) { return P::multiple(k, i); }
    static FN FieldElement zero() {
        FieldElement r;
#pragma unroll
        for (int i = 0; i < N; i++) r.w[i] = 0;
        return r;
    }
    static FN FieldElement one() {
        FieldElement r;
#pragma unroll
        for (int i = 0; i < N; i++) r.w[i] = P::one(i);
        return r;
    }
};
using Fp = FieldElement<FpParams>;
using Fr = FieldElement<FrParams>;

template <class F> FN F zero() { return F::zero(); }
template <class F> FN F one() { return F::one(); }

// True if all limbs are 0, so false for nonzero multiples of the modulus.
template <class P> FN bool is_zero(const FieldElement<P>& a) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) any |= a.w[i];
    return any == 0;
}
template <class P> FN bool same_limbs(const FieldElement<P>& a, const FieldElement<P>& b) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) any |= a.w[i] ^ b.w[i];
    return any == 0;
}
// a if mask is all ones, b if it is 0. Bitwise, because ptxas turns some selects into predicated
// IMAD.MOVs, on the pipe that products need.
template <class P>
FN FieldElement<P> blend(uint32_t mask, const FieldElement<P>& a, const FieldElement<P>& b) {
    FieldElement<P> r;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) r.w[i] = (a.w[i] & mask) | (b.w[i] & ~mask);
    return r;
}

// ---- integers ---------------------------------------------------------------------------------
// r = a + b and r = a - b mod 2^(32 N). The carry or borrow stays in the flag.
template <int N> FN void add_words(uint32_t* r, const uint32_t* a, const uint32_t* b) {
    r[0] = add_cc(a[0], b[0]);
    UNROLL for (int i = 1; i < N; i++) r[i] = addc_cc(a[i], b[i]);
}
template <int N> FN void sub_words(uint32_t* r, const uint32_t* a, const uint32_t* b) {
    r[0] = sub_cc(a[0], b[0]);
    UNROLL for (int i = 1; i < N; i++) r[i] = subc_cc(a[i], b[i]);
}
// All ones if the last subtraction borrowed, else 0.
FN uint32_t borrow_mask() { return subc(0, 0); }

// K q.
template <int K, class F> FN F multiple() {
    F r;
#pragma unroll
    for (int i = 0; i < F::N; i++) r.w[i] = F::modulus(i, K);
    return r;
}
// a < K q.
template <int K, class P> FN bool is_below(const FieldElement<P>& a) {
    FieldElement<P> t;
    sub_words<P::LIMBS>(t.w, a.w, multiple<K, FieldElement<P>>().w);
    return borrow_mask() != 0;
}
template <class P> FN bool is_canonical(const FieldElement<P>& a) { return is_below<1>(a); }

#ifndef __CUDACC__
// a / q for assertions, accurate to 2^-50.
template <class P> inline double ratio(const FieldElement<P>& a) {
    constexpr int T = P::LIMBS - 1;
    const auto top = [](uint32_t hi, uint32_t mid) { return hi * 4294967296.0 + mid; };
    return top(a.w[T], a.w[T - 1]) / top(P::multiple(1, T), P::multiple(1, T - 1));
}
// R / q.
template <class F> inline double slack() {
    return 18446744073709551616.0 / (F::modulus(F::N - 1) * 4294967296.0 + F::modulus(F::N - 2));
}
#endif

// ---- sums -------------------------------------------------------------------------------------
template <class P> FN FieldElement<P> add_lazy(const FieldElement<P>& a, const FieldElement<P>& b) {
    ASSERT_RANGE(ratio(a) + ratio(b) < slack<FieldElement<P>>());
    FieldElement<P> r;
    add_words<P::LIMBS>(r.w, a.w, b.w);
    return r;
}
template <int K, class P>
FN FieldElement<P> sub_lazy(const FieldElement<P>& a, const FieldElement<P>& b) {
    ASSERT_RANGE(ratio(b) < K + 1e-9 && ratio(a) - ratio(b) + K < slack<FieldElement<P>>());
    FieldElement<P> r;
    sub_words<P::LIMBS>(r.w, a.w, b.w);
    add_words<P::LIMBS>(r.w, r.w, multiple<K, FieldElement<P>>().w);
    return r;
}
// Maps 0 to K q.
template <int K, class P> FN FieldElement<P> neg_lazy(const FieldElement<P>& a) {
    ASSERT_RANGE(ratio(a) < K + 1e-9);
    FieldElement<P> r;
    sub_words<P::LIMBS>(r.w, multiple<K, FieldElement<P>>().w, a.w);
    return r;
}
template <int K, class P> FN FieldElement<P> reduce_once(const FieldElement<P>& a) {
    FieldElement<P> t;
    sub_words<P::LIMBS>(t.w, a.w, multiple<K, FieldElement<P>>().w);
    return blend(borrow_mask(), a, t);
}
// Fp: a < 4 p. Fr: any a (< 2.3 r).
template <class P> FN FieldElement<P> canonical(const FieldElement<P>& a) {
    const FieldElement<P> r = reduce_once<1>(reduce_once<2>(a));
    ASSERT_RANGE(is_canonical(r));
    return r;
}

template <class P> FN FieldElement<P> add(const FieldElement<P>& a, const FieldElement<P>& b) {
    ASSERT_RANGE(is_canonical(a) && is_canonical(b));
    return reduce_once<1>(add_lazy(a, b));
}
template <class P> FN FieldElement<P> dbl(const FieldElement<P>& a) { return add(a, a); }
template <class P> FN FieldElement<P> sub(const FieldElement<P>& a, const FieldElement<P>& b) {
    ASSERT_RANGE(is_canonical(a) && is_canonical(b));
    FieldElement<P> r;
    sub_words<P::LIMBS>(r.w, a.w, b.w);
    const uint32_t mask = borrow_mask();
    FieldElement<P> q;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) q.w[i] = FieldElement<P>::modulus(i) & mask;
    add_words<P::LIMBS>(r.w, r.w, q.w);
    return r;
}
// Maps 0 to 0.
template <class P> FN FieldElement<P> neg(const FieldElement<P>& a) {
    return sub(zero<FieldElement<P>>(), a);
}
