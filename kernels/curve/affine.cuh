// Affine points of y^2 = x^3 + b: G1 over F = Fp (b = 4), G2 over F = Fp2 (b = 4 + 4u).
//
// Infinity is x = y = 0 in device memory, which is a point of neither curve. Both groups have odd
// order (h1, h2 and r are odd), so no point has y = 0 and doubling never meets a vertical tangent.
//
// Ranges. "Loose" is below 2p in every coordinate of F. A product of two loose values is loose,
// over Fp2 too. x of an affine point is always canonical, so that x-coordinates can be compared; y
// may be loose, and infinity may then have y = p.
#pragma once
#include "products.cuh"

template <class F> struct alignas(16) Affine {
    F x, y;
};

template <class F> FN bool is_infinity(const Affine<F>& p) {
    return is_zero(p.x) && is_zero(canonical(p.y));
}
template <class F> FN Affine<F> infinity() { return {zero<F>(), zero<F>()}; }
// -p; y remains loose, and y <= p remains <= 2p.
template <class F> FN Affine<F> negate(const Affine<F>& p) { return {p.x, neg_lazy<2>(p.y)}; }

// 3 a; a and the result are loose.
template <class F> FN F triple(const F& a) {
    const F once = reduce_once<1>(a);
    return reduce_once<2>(add_lazy(add_lazy(once, once), once));
}
// Makes a value below 4p a factor for one below 2p. Fp's product accepts it unchanged.
FN Fp reduce_factor(const Fp& a) { return a; }
FN Fp2 reduce_factor(const Fp2& a) { return reduce_once<2>(a); }
// a - b; a, b and the result are loose.
template <class F> FN F sub_loose(const F& a, const F& b) {
    return reduce_once<2>(sub_lazy<2>(a, b));
}
// Whether a loose value is 0 mod p. One limb decides for all but 2^-31 of values.
FN uint32_t first_limb(const Fp& a) { return a.w[0]; }
FN uint32_t first_limb(const Fp2& a) { return a.c0.w[0]; }
template <class F> FN bool is_zero_loose(const F& a) {
    return (first_limb(a) == 0 || first_limb(a) == Fp::modulus(0)) && is_zero(canonical(a));
}

// Handles u = 0, where u and r are the differences of two points' x and y over one denominator, so
// there is no chord. Equal points (r = 0): sets u and r to the tangent's 2y and 3x^2 at (x, y) and
// returns true. Opposite points: returns false; u = 0 then makes the sum's denominator 0, which
// correctly is infinity.
template <class F> FN bool tangent(F& u, F& r, const F& x, const F& y) {
    if (!is_zero_loose(r)) return false;
    u = reduce_once<2>(add_lazy(y, y));
    r = triple(squared(x));
    return true;
}

// b of the curve's equation.
FN Fp curve_b(Fp) {
    const Fp two = dbl(one<Fp>());
    return dbl(two);
}
FN Fp2 curve_b(Fp2) { return {curve_b(Fp{}), curve_b(Fp{})}; }
// Whether p is infinity or satisfies y^2 = x^3 + b. x and y are canonical.
template <class F> FN bool on_curve(const Affine<F>& p) {
    if (is_infinity(p)) return true;
    const F right = canonical(add_lazy(times(squared(p.x), p.x), curve_b(F{}))); // < 3p before
    return same_limbs(canonical(squared(p.y)), right);
}
