// XYZZ coordinates: x = X / ZZ, y = Y / ZZZ, ZZ^3 = ZZZ^2 (EFD, short Weierstrass, a = 0).
//
// All four coordinates are loose. Infinity is ZZ = ZZZ = 0 mod p, with any loose X and Y.
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

// A sum under computation: the point, and two values that must survive across products. Cell is F,
// or a location that converts to F and can be assigned.
template <class F, class Cell = F> struct XyzzAccumulator {
    Cell x, y, zz, zzz, r, q;
};
// s = the sum whose chord has denominator u and numerator s.r: the common end of madd-2008-s,
// add-2008-s and dbl-2008-s-1. A tangent's x lacks the term u^3. on_cells_free() is called after
// the last read of s.r and s.q.
template <class F, class Cell, class OnCellsFree>
FN void chord(XyzzAccumulator<F, Cell>& s, const F& u, bool is_tangent, OnCellsFree on_cells_free) {
    const F uu = squared(u);
    s.zz = times(F(s.zz), uu);
    s.q = times(F(s.x), uu);
    const F uuu = times(u, uu);
    s.zzz = times(F(s.zzz), uuu);
    const F term = blend(is_tangent ? 0 : ~0u, uuu, zero<F>()), rr = squared(F(s.r));
    const F q = s.q, wide = sub_lazy<6>(rr, add_lazy(add_lazy(q, q), term)); // products < 1.9p
    const F x = reduce_once<2>(reduce_once<4>(wide));
    s.x = x;
    const F to_x = sub_loose(q, x), r = s.r, y = s.y;
    on_cells_free();
    s.y = times_minus_times(r, to_x, y, uuu);
}
template <class F> FN Xyzz<F> dbl(const Xyzz<F>& p) {
    XyzzAccumulator<F> s = {p.x, p.y, p.zz, p.zzz, triple(squared(p.x)), zero<F>()};
    chord(s, reduce_once<2>(add_lazy(p.y, p.y)), true, [] {});
    return {s.x, s.y, s.zz, s.zzz};
}
// s += p, 8M + 2S, p's y loose. x() and y() return p's coordinates. Each is called once, before s.q
// and s.r are written, so these cells may hold them. on_point_read() is called after both, and
// on_cells_free() once s.q and s.r are free again.
template <class F, class Cell, class GetX, class GetY, class OnPointRead, class OnCellsFree>
FN void accumulate_from(XyzzAccumulator<F, Cell>& s, GetX x, GetY y,
                        OnPointRead on_point_read, OnCellsFree on_cells_free) {
    const F px = x();
    const bool start = is_zero_loose(F(s.zz));
    if (start || first_limb(px) == 0) {
        const Affine<F> p = {px, y()};
        if (start || is_infinity(p)) {
            const Xyzz<F> first = to_xyzz(p);
            if (start) s.x = first.x, s.y = first.y, s.zz = first.zz, s.zzz = first.zzz;
            on_point_read();
            on_cells_free();
            return;
        }
    }
    s.r = sub_loose(times(F(s.zzz), y()), F(s.y));
    F u = sub_loose(times(F(s.zz), px), F(s.x));
    on_point_read();
    bool is_tangent = false;
    if (is_zero_loose(u)) {
        F r = s.r;
        is_tangent = tangent(u, r, F(s.x), F(s.y));
        s.r = r;
    }
    chord(s, u, is_tangent, on_cells_free);
}
template <class F> FN void accumulate(Xyzz<F>& sum, const Affine<F>& p) {
    XyzzAccumulator<F> s = {sum.x, sum.y, sum.zz, sum.zzz, zero<F>(), zero<F>()};
    accumulate_from(s, [&] { return p.x; }, [&] { return p.y; }, [] {}, [] {});
    sum = {s.x, s.y, s.zz, s.zzz};
}
// 12M + 2S.
template <class F> FN Xyzz<F> add(const Xyzz<F>& a, const Xyzz<F>& b) {
    if (is_infinity(a)) return b;
    if (is_infinity(b)) return a;
    // a over the common denominator
    XyzzAccumulator<F> s = {times(a.x, b.zz), times(a.y, b.zzz), times(a.zz, b.zz),
                            times(a.zzz, b.zzz)};
    s.r = sub_loose(times(b.y, a.zzz), s.y);
    F u = sub_loose(times(b.x, a.zz), s.x);
    const bool is_tangent = is_zero_loose(u) && tangent(u, s.r, s.x, s.y);
    chord(s, u, is_tangent, [] {});
    return {s.x, s.y, s.zz, s.zzz};
}
// Returns canonical coordinates. One inversion: with i = 1 / ZZZ, 1 / ZZ = (i ZZ)^2.
template <class F> FN Affine<F> to_affine(const Xyzz<F>& s) {
    if (is_infinity(s)) return infinity<F>();
    const F i = inverse(s.zzz);
    return {canonical(times(s.x, squared(times(i, s.zz)))), canonical(times(s.y, i))};
}
