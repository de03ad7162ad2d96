// Membership of the subgroups of order r by endomorphisms (M. Scott, eprint 2021/1130): for a point
// P of the curve,
//   G1: P is in the subgroup iff phi(P) = -[x^2] P, phi(X, Y) = (beta X, Y), beta^3 = 1;
//   G2: P is in the subgroup iff psi(P) = [x] P, psi being untwist, Frobenius, twist.
// x = -0xd201000000010000 is the curve's parameter, with six bits set.
#pragma once
#include "../params/curve.cuh"
#include "jacobian.cuh"

// [|x|] P for P = slot.base(), which is read anew at each of five additions. 63 doublings.
//
// The formulas use no constant of the curve, so P may be (X, Y) of a Jacobian (X, Y, Z): an affine
// point of y^2 = x^3 + b Z^6. The product's z is then to be multiplied by Z.
template <class F, class Slot> FN Jacobian<F> multiply_by_parameter(const Slot& slot) {
    const Affine<F> p = slot.base();
    Jacobian<F> s = {p.x, p.y, one<F>()};
#pragma unroll 1
    for (int bit = 62; bit >= 0; bit--) {
        s = dbl(s);
        if (CURVE_PARAMETER >> bit & 1) s = add_finite(s, slot.base());
    }
    return s;
}
// Whether (x, y) = the affine point of p. x and y loose.
template <class F> FN bool same_point(const Jacobian<F>& p, const F& x, const F& y) {
    const F zz = sqr(p.z);
    const bool same_x = is_zero_loose(sub_loose(mul(x, zz), p.x));
    const bool same_y = is_zero_loose(sub_loose(mul(y, mul(zz, p.z)), p.y));
    return same_x && same_y && !is_zero_loose(p.z);
}

FN Fp fp_constant(const uint32_t* limbs) {
    Fp a;
#pragma unroll
    for (int i = 0; i < Fp::N; i++) a.w[i] = limbs[i];
    return a;
}
FN Fp2 fp2_constant(const uint32_t* limbs) {
    return {fp_constant(limbs), fp_constant(limbs + Fp::N)};
}
FN Fp2 conjugate(const Fp2& a) { return {a.c0, neg_lazy<2>(a.c1)}; }
// point() gives the point that is asked about; slot.keep(j) holds a Jacobian point for slot.base(),
// its x and y, and slot.z(). Both are read when they are needed, which spares registers.
template <class Point, class Slot> FN bool in_subgroup(Fp, Point point, const Slot& slot) {
    slot.keep(to_jacobian(point()));
    slot.keep(multiply_by_parameter<Fp>(slot));
    Jacobian<Fp> s = multiply_by_parameter<Fp>(slot);
    s.z = mul(s.z, slot.z());
    const Affine<Fp> p = point();
    return is_infinity(p) || same_point(s, mul(p.x, fp_constant(BETA)), neg_lazy<2>(p.y));
}
template <class Point, class Slot> FN bool in_subgroup(Fp2, Point point, const Slot& slot) {
    slot.keep(to_jacobian(point()));
    const Jacobian<Fp2> s = multiply_by_parameter<Fp2>(slot);
    const Affine<Fp2> p = point();
    const Fp2 x = mul(conjugate(p.x), fp2_constant(PSI_X));
    const Fp2 y = mul(conjugate(p.y), fp2_constant(PSI_Y));
    return is_infinity(p) || same_point(s, x, reduce_once<2>(neg_lazy<2>(y))); // [x] = -[|x|]
}
