// XYZZ coordinates: x = X / ZZ, y = Y / ZZZ, ZZ^3 = ZZZ^2 (EFD, short Weierstrass, a = 0).
//
// All four coordinates are loose. Infinity is ZZ = ZZZ = 0 mod p, X and Y anything loose.
#pragma once
#include "affine.cuh"

template <class F> struct alignas(16) Xyzz {
    F x, y, zz, zzz;
};

template <class F> FN Xyzz<F> xyzz_infinity() {
    return {zero<F>(), zero<F>(), zero<F>(), zero<F>()};
}
template <class F> FN bool is_infinity(const Xyzz<F>& s) { return is_zero_loose(s.zz); }
template <class F> FN Xyzz<F> to_xyzz(const Affine<F>& p) {
    if (is_infinity(p)) return xyzz_infinity<F>();
    return {p.x, p.y, one<F>(), one<F>()};
}
template <class F> FN Xyzz<F> negate(const Xyzz<F>& s) {
    return {s.x, reduce_once<2>(neg_lazy<2>(s.y)), s.zz, s.zzz};
}

// The sum whose chord has denominator u and numerator r, from the point (x, y) over zz, zzz: where
// madd-2008-s, add-2008-s and dbl-2008-s-1 end. A tangent's x lacks the term u^3.
template <class F>
FN Xyzz<F> chord(const F& x, const F& y, const F& zz, const F& zzz, const F& u, const F& r,
                 bool is_tangent) {
    Xyzz<F> s;
    const F uu = sqr(u), uuu = mul(u, uu), q = mul(x, uu);
    const F term = blend(is_tangent ? 0 : ~0u, uuu, zero<F>());
    const F wide = sub_lazy<6>(sqr(r), add_lazy(add_lazy(q, q), term)); // each product < 1.9p
    s.x = reduce_once<2>(reduce_once<4>(wide));
    s.y = mul_sub_mul(r, sub_loose(q, s.x), y, uuu);
    s.zz = mul(zz, uu), s.zzz = mul(zzz, uuu);
    return s;
}
template <class F> FN Xyzz<F> dbl(const Xyzz<F>& s) {
    const F u = reduce_once<2>(add_lazy(s.y, s.y));
    return chord(s.x, s.y, s.zz, s.zzz, u, triple(sqr(s.x)), true);
}
// s += p, 8M + 2S, p's y loose. x() and y() give its coordinates, which need not wait in registers;
// done() comes after the last of them.
template <class F, class X, class Y, class Done>
FN void accumulate_from(Xyzz<F>& s, X x, Y y, Done done) {
    const F px = x();
    F u, r;
    const bool start = is_infinity(s);
    if (start || first_limb(px) == 0) {
        const Affine<F> p = {px, y()};
        if (start || is_infinity(p)) {
            if (start) s = to_xyzz(p);
            done();
            return;
        }
    }
    u = sub_loose(mul(px, s.zz), s.x);
    r = sub_loose(mul(y(), s.zzz), s.y);
    done();
    const bool is_tangent = is_zero_loose(u) && tangent(u, r, s.x, s.y);
    s = chord(s.x, s.y, s.zz, s.zzz, u, r, is_tangent);
}
template <class F> FN void accumulate(Xyzz<F>& s, const Affine<F>& p) {
    accumulate_from(s, [&] { return p.x; }, [&] { return p.y; }, [] {});
}
// 12M + 2S.
template <class F> FN Xyzz<F> add(const Xyzz<F>& a, const Xyzz<F>& b) {
    if (is_infinity(a)) return b;
    if (is_infinity(b)) return a;
    const F x = mul(a.x, b.zz), y = mul(a.y, b.zzz); // a over the common denominator
    F u = sub_loose(mul(b.x, a.zz), x), r = sub_loose(mul(b.y, a.zzz), y);
    const bool is_tangent = is_zero_loose(u) && tangent(u, r, x, y);
    return chord(x, y, mul(a.zz, b.zz), mul(a.zzz, b.zzz), u, r, is_tangent);
}
// Canonical coordinates. One inversion: with i = 1 / ZZZ, 1 / ZZ = (i ZZ)^2.
template <class F> FN Affine<F> to_affine(const Xyzz<F>& s) {
    if (is_infinity(s)) return infinity<F>();
    const F i = inverse(s.zzz);
    return {canonical(mul(s.x, sqr(mul(i, s.zz)))), canonical(mul(s.y, i))};
}
