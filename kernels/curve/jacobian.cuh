// Jacobian coordinates: x = X / Z^2, y = Y / Z^3. Doubling is cheapest here, so multiplications by
// a fixed integer run in them.
//
// All three coordinates are loose. Infinity is Z = 0 mod p, X and Y anything loose.
#pragma once
#include "affine.cuh"

template <class F> struct alignas(16) Jacobian {
    F x, y, z;
};

template <class F> FN bool is_infinity(const Jacobian<F>& p) { return is_zero_loose(p.z); }
template <class F> FN Jacobian<F> to_jacobian(const Affine<F>& p) {
    return {p.x, p.y, is_infinity(p) ? zero<F>() : one<F>()};
}
template <class F> FN Jacobian<F> negate(const Jacobian<F>& p) {
    return {p.x, reduce_once<2>(neg_lazy<2>(p.y)), p.z};
}
// a / 2: a < 3p, result < 2p.
FN Fp halve(const Fp& a) {
    const uint32_t odd = 0 - (a.w[0] & 1);
    Fp r;
    r.w[0] = add_cc(a.w[0], Fp::modulus(0) & odd);
#pragma unroll
    for (int i = 1; i < 11; i++) r.w[i] = addc_cc(a.w[i], Fp::modulus(i) & odd);
    r.w[11] = addc(a.w[11], Fp::modulus(11) & odd);
#pragma unroll
    for (int i = 0; i < 11; i++) r.w[i] = funnel_right(r.w[i], r.w[i + 1], 1);
    r.w[11] >>= 1;
    return r;
}
FN Fp2 halve(const Fp2& a) { return {halve(a.c0), halve(a.c1)}; }

// 2M + 3S and a difference of products. With E = 3 X^2 / 2 and V = X Y^2: X' = E^2 - 2V,
// Y' = E (V - X') - Y^4, Z' = Y Z, which is dbl-2009-l with Z halved.
template <class F> FN Jacobian<F> dbl(const Jacobian<F>& p) {
    const F xx = reduce_once<1>(sqr(p.x)), yy = sqr(p.y);
    const F e = halve(add_lazy(add_lazy(xx, xx), xx));
    const F v = reduce_once<1>(mul(p.x, yy));
    Jacobian<F> r;
    r.x = sub_loose(sqr(e), add_lazy(v, v));
    r.y = mul_sub_mul(e, sub_loose(v, r.x), yy, yy);
    r.z = mul(p.y, p.z);
    return r;
}
// The sum whose chord has denominator u and numerator r, from the point (x, y) over z. A tangent's
// x lacks the term u^3.
template <class F>
FN Jacobian<F> chord(const F& x, const F& y, const F& z, const F& u, const F& r,
                     bool is_tangent) {
    Jacobian<F> s;
    const F uu = sqr(u), uuu = mul(u, uu), q = mul(x, uu);
    const F term = blend(is_tangent ? 0 : ~0u, uuu, zero<F>());
    const F wide = sub_lazy<6>(sqr(r), add_lazy(add_lazy(q, q), term)); // each product < 1.9p
    s.x = reduce_once<2>(reduce_once<4>(wide));
    s.y = mul_sub_mul(r, sub_loose(q, s.x), y, uuu);
    s.z = mul(z, u);
    return s;
}
// p + q, 8M + 3S. q loose in x and y, and not infinity.
template <class F> FN Jacobian<F> add_finite(const Jacobian<F>& p, const Affine<F>& q) {
    if (is_infinity(p)) return {q.x, q.y, one<F>()};
    const F zz = sqr(p.z);
    F u = sub_loose(mul(q.x, zz), p.x), r = sub_loose(mul(q.y, mul(p.z, zz)), p.y);
    const bool is_tangent = is_zero_loose(u) && tangent(u, r, p.x, p.y);
    return chord(p.x, p.y, p.z, u, r, is_tangent);
}
// p + q. y of q loose.
template <class F> FN Jacobian<F> add(const Jacobian<F>& p, const Affine<F>& q) {
    return is_infinity(q) ? p : add_finite(p, q);
}
// 12M + 4S (add-1998-cmo-2).
template <class F> FN Jacobian<F> add(const Jacobian<F>& p, const Jacobian<F>& q) {
    if (is_infinity(p)) return q;
    if (is_infinity(q)) return p;
    const F pzz = sqr(p.z), qzz = sqr(q.z);
    const F x = mul(p.x, qzz), y = mul(p.y, mul(q.z, qzz));
    F u = sub_loose(mul(q.x, pzz), x), r = sub_loose(mul(q.y, mul(p.z, pzz)), y);
    const bool is_tangent = is_zero_loose(u) && tangent(u, r, x, y);
    return chord(x, y, mul(p.z, q.z), u, r, is_tangent);
}
// Canonical coordinates.
template <class F> FN Affine<F> to_affine(const Jacobian<F>& p) {
    if (is_infinity(p)) return infinity<F>();
    const F i = inverse(p.z), ii = sqr(i);
    return {canonical(mul(p.x, ii)), canonical(mul(p.y, mul(ii, i)))};
}
