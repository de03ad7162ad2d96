// Sums of a batch that have no chord.
//
// Doubling, opposite points and infinity are detected by one limb of x: a false positive, 2^-31 of
// all, only costs time. The code is not inlined and takes no points: points in registers would be
// written to the stack for the call, in every step of the hot loop.
#pragma once
#include "summands.cuh"

template <class F> FN bool may_be_special(const F& ax, const F& bx) {
    const uint32_t a = first_limb(ax), b = first_limb(bx);
    return a == b || a == 0 || b == 0;
}
template <class F> FN bool same_y(const Affine<F>& a, const Affine<F>& b) {
    return same_limbs(canonical(a.y), canonical(b.y));
}
// The denominator of the slope of a + b, never 0 mod p, below 2p: b.x - a.x in the common case, 2y
// for a doubling, 1 if no slope is needed.
template <class F> NOINLINE F special_denominator(Summands<F> summands, Pair pair) {
    const Affine<F> a = summands.load(pair.first), b = summands.load(pair.second);
    if (is_infinity(a) || is_infinity(b)) return one<F>();
    if (!same_limbs(a.x, b.x)) return sub_lazy<1>(b.x, a.x);
    if (!same_y(a, b)) return one<F>();
    const F y = canonical(a.y);
    return add_lazy(y, y);
}
// The numerator of the slope of a + b, below 4p.
template <class F> NOINLINE F special_numerator(Summands<F> summands, Pair pair) {
    const Affine<F> a = summands.load(pair.first), b = summands.load(pair.second);
    return same_limbs(a.x, b.x) ? triple(squared(a.x)) : sub_lazy<2>(b.y, a.y);
}
// Overwrites sums for which the chord formula is wrong.
template <class F> NOINLINE void store_special_sum(Affine<F>* to, Summands<F> summands, Pair pair) {
    const Affine<F> a = summands.load(pair.first), b = summands.load(pair.second);
    if (is_infinity(a)) {
        store_affine(to, is_infinity(b) ? infinity<F>() : b); // since its y may be 2p
    } else if (is_infinity(b)) {
        store_affine(to, a);
    } else if (same_limbs(a.x, b.x) && !same_y(a, b)) {
        store_affine(to, infinity<F>());
    }
}
