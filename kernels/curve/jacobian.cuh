// Jacobian coordinates: x = X / Z^2, y = Y / Z^3. Used for multiplications by a fixed integer,
// since doubling is cheapest in them.
//
// All three coordinates are loose. Infinity is Z = 0 mod p, with any loose X and Y.
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

// A point under computation, and two values that must survive across products. Cell is F, or a
// location that converts to F and can be assigned.
template <class F, class Cell = F> struct JacobianAccumulator {
    Cell x, y, z, r, q;
};
// Sets x and y to those of 2p; the caller sets z to Y Z. M + 3S and a difference of products. With
// E = 3 X^2 / 2, V = X Y^2: X' = E^2 - 2V, Y' = E (V - X') - Y^4, Z' = Y Z (dbl-2009-l, Z halved).
template <class F, class Cell> FN void double_xy(JacobianAccumulator<F, Cell>& p) {
    p.y = squared(F(p.y));
    const F v = reduce_once<1>(times(F(p.x), F(p.y))), xx = reduce_once<1>(squared(F(p.x)));
    const F e = halve(add_lazy(add_lazy(xx, xx), xx));
    const F x = sub_loose(squared(e), add_lazy(v, v));
    p.x = x;
    p.y = times_minus_times(e, sub_loose(v, x), F(p.y), F(p.y));
}
// p = 2p. 2M + 3S and a difference of products.
template <class F, class Cell> FN void double_in_place(JacobianAccumulator<F, Cell>& p) {
    p.z = times(F(p.y), F(p.z));
    double_xy(p);
}
// p = the sum whose chord has denominator u and numerator p.r. A tangent's x lacks the term u^3.
template <class F, class Cell>
FN void chord(JacobianAccumulator<F, Cell>& p, const F& u, bool is_tangent) {
    p.z = times(F(p.z), u);
    const F uu = squared(u);
    p.q = times(F(p.x), uu);
    const F uuu = times(u, uu), rr = squared(F(p.r));
    const F term = blend(is_tangent ? 0 : ~0u, uuu, zero<F>());
    const F q = p.q, wide = sub_lazy<6>(rr, add_lazy(add_lazy(q, q), term)); // products < 1.9p
    const F x = reduce_once<2>(reduce_once<4>(wide));
    p.x = x;
    p.y = times_minus_times(F(p.r), sub_loose(q, x), F(p.y), uuu);
}
// The last steps of p + q, for the chord's denominator u and its numerator p.r.
template <class F, class Cell> FN void finish_addition(JacobianAccumulator<F, Cell>& p, F u) {
    bool is_tangent = false;
    if (is_zero_loose(u)) { // opposite points: z becomes 0
        F r = p.r;
        is_tangent = tangent(u, r, F(p.x), F(p.y));
        p.r = r;
    }
    chord(p, u, is_tangent);
}
// p += (x, y), which is not infinity. 8M + 3S. x and y are of p's cell type, loose.
template <class F, class Cell, class Point>
FN void add_in_place(JacobianAccumulator<F, Cell>& p, const Point& x, const Point& y) {
    if (is_zero_loose(F(p.z))) {
        p.x = F(x), p.y = F(y), p.z = one<F>();
        return;
    }
    const F zz = squared(F(p.z));
    p.r = sub_loose(times(F(y), times(F(p.z), zz)), F(p.y));
    finish_addition(p, sub_loose(times(F(x), zz), F(p.x)));
}
// p += (x, y), which has a different x; p is not infinity. x and y are loose, read when needed.
template <class F, class Cell, class Place>
FN void add_different(JacobianAccumulator<F, Cell>& p, const Place& x, const Place& y) {
    const F zz = squared(F(p.z));
    p.r = sub_loose(times(F(y), times(F(p.z), zz)), F(p.y));
    const F u = sub_loose(times(F(x), zz), F(p.x));
    ASSERT_RANGE(!is_zero_loose(u));
    chord(p, u, false);
}
template <class F> FN Jacobian<F> dbl(const Jacobian<F>& p) {
    JacobianAccumulator<F> s = {p.x, p.y, p.z, zero<F>(), zero<F>()};
    double_in_place(s);
    return {s.x, s.y, s.z};
}
// p + q. y of q is loose.
template <class F> FN Jacobian<F> add(const Jacobian<F>& p, const Affine<F>& q) {
    if (is_infinity(q)) return p;
    JacobianAccumulator<F> s = {p.x, p.y, p.z, zero<F>(), zero<F>()};
    add_in_place(s, q.x, q.y);
    return {s.x, s.y, s.z};
}
// 12M + 4S (add-1998-cmo-2).
template <class F> FN Jacobian<F> add(const Jacobian<F>& p, const Jacobian<F>& q) {
    if (is_infinity(p)) return q;
    if (is_infinity(q)) return p;
    const F pzz = squared(p.z), qzz = squared(q.z);
    // p over the common denominator
    JacobianAccumulator<F> s = {times(p.x, qzz), times(p.y, times(q.z, qzz)), times(p.z, q.z)};
    s.r = sub_loose(times(q.y, times(p.z, pzz)), s.y);
    finish_addition(s, sub_loose(times(q.x, pzz), s.x));
    return {s.x, s.y, s.z};
}
