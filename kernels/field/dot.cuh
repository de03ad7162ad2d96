// Sums and differences of two products with one reduction; conversions. Ranges: see ../field.cuh.
#pragma once
#include "fp.cuh"
#include "fr.cuh"

// Integers mod 2^(64 N): a difference below zero wraps.
template <class P> FN Wide<P> operator+(const Wide<P>& a, const Wide<P>& b) {
    Wide<P> r;
    add_words<2 * P::LIMBS>(r.w, a.w, b.w);
    return r;
}
template <class P> FN Wide<P> operator-(const Wide<P>& a, const Wide<P>& b) {
    Wide<P> r;
    sub_words<2 * P::LIMBS>(r.w, a.w, b.w);
    return r;
}
// Adds q R where the mask is all ones.
template <class P> FN void add_modulus_above(Wide<P>& t, uint32_t mask) {
    Prime<P> q;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) q.w[i] = Prime<P>::modulus(i) & mask;
    add_words<P::LIMBS>(t.w + P::LIMBS, t.w + P::LIMBS, q.w);
}

template <class P>
FN Prime<P> mul_add_mul(const Prime<P>& a, const Prime<P>& b, const Prime<P>& c,
                        const Prime<P>& d) {
    ASSERT_RANGE(ratio(a) * ratio(b) + ratio(c) * ratio(d) < slack<Prime<P>>());
    return reduce(product(a, b) + product(c, d));
}
template <class P>
FN Prime<P> mul_sub_mul(const Prime<P>& a, const Prime<P>& b, const Prime<P>& c,
                        const Prime<P>& d) {
    ASSERT_RANGE(ratio(a) * ratio(b) < slack<Prime<P>>());
    ASSERT_RANGE(ratio(c) * ratio(d) < slack<Prime<P>>());
    Wide<P> t = product(a, b) - product(c, d);
    add_modulus_above(t, borrow_mask());
    return reduce(t);
}

// a R mod q, canonical. Fp: a < 7.8 p; Fr: any a.
template <class P> FN Prime<P> to_montgomery(const Prime<P>& a) {
    Prime<P> square;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) square.w[i] = P::radix_squared(i);
    return canonical(mul(a, square));
}
// a / R mod q, canonical, for any a.
template <class P> FN Prime<P> from_montgomery(const Prime<P>& a) {
    Wide<P> t;
#pragma unroll
    for (int i = 0; i < P::LIMBS; i++) {
        t.w[i] = a.w[i];
        t.w[P::LIMBS + i] = 0;
    }
    return canonical(reduce(t));
}
