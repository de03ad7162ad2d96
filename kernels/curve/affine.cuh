// Affine points of y^2 = x^3 + b: G1 over F = Fp (b = 4), G2 over F = Fp2 (b = 4 + 4u).
//
// Infinity is x = y = 0 in device memory; neither curve has a point there. Both groups have odd
// order (h1, h2 and r are odd), so no point has y = 0 and doubling never meets a vertical tangent.
//
// Ranges. "Loose" is below 2p in every coordinate of F. A product of two loose values is loose
// again, over Fp2 too. x of an affine point is always canonical, so that x-coordinates can be
// compared; y may be loose, and infinity may then have y = p.
#pragma once
#include "products.cuh"

template <class F> struct alignas(16) Affine {
    F x, y;
};

template <class F> FN bool is_infinity(const Affine<F>& p) {
    return is_zero(p.x) && is_zero(canonical(p.y));
}
template <class F> FN Affine<F> infinity() { return {zero<F>(), zero<F>()}; }
// -p; y stays loose, and y <= p stays <= 2p.
template <class F> FN Affine<F> negate(const Affine<F>& p) { return {p.x, neg_lazy<2>(p.y)}; }

// 3 a: a loose, result loose.
template <class F> FN F triple(const F& a) {
    const F once = reduce_once<1>(a);
    return reduce_once<2>(add_lazy(add_lazy(once, once), once));
}
// A value below 4p as a factor of one below 2p: Fp takes it as it is, a product of Fp2 does not.
FN Fp tame(const Fp& a) { return a; }
FN Fp2 tame(const Fp2& a) { return reduce_once<2>(a); }
// a - b: both loose, result loose.
template <class F> FN F sub_loose(const F& a, const F& b) {
    return reduce_once<2>(sub_lazy<2>(a, b));
}
// Whether a loose value is 0 mod p. One limb decides for all but 2^-31 of values.
FN uint32_t first_limb(const Fp& a) { return a.w[0]; }
FN uint32_t first_limb(const Fp2& a) { return a.c0.w[0]; }
template <class F> FN bool is_zero_loose(const F& a) {
    return (first_limb(a) == 0 || first_limb(a) == Fp::modulus(0)) && is_zero(canonical(a));
}

// Where u = 0, u and r being the differences of two points' x and y over one denominator, there is
// no chord. Equal points (r = 0 too): u and r become the tangent's 2y and 3x^2 at (x, y), and true.
// Opposite points: false; u = 0 makes the sum's denominator 0, which is infinity as it should be.
template <class F> FN bool tangent(F& u, F& r, const F& x, const F& y) {
    if (!is_zero_loose(r)) return false;
    u = reduce_once<2>(add_lazy(y, y));
    r = triple(squared(x));
    return true;
}

FN Fp four(Fp) {
    const Fp two = dbl(one<Fp>());
    return dbl(two);
}
FN Fp2 four(Fp2) { return {four(Fp{}), four(Fp{})}; }
// y^2 = x^3 + b, or infinity. x and y canonical.
template <class F> FN bool on_curve(const Affine<F>& p) {
    if (is_infinity(p)) return true;
    const F right = canonical(add_lazy(times(squared(p.x), p.x), four(F{}))); // < 3p before
    return same_limbs(canonical(squared(p.y)), right);
}
