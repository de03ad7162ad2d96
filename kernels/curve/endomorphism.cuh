// Subgroup membership tests by endomorphisms (M. Scott, eprint 2021/1130). For a point P of the
// curve:
//   G1: P is in the subgroup iff phi(P) = -[x^2] P, phi(X, Y) = (beta X, Y), beta^3 = 1;
//   G2: P is in the subgroup iff psi(P) = [x] P, psi being untwist, Frobenius, twist.
// x = -0xd201000000010000 is the curve's parameter, with six bits set.
#pragma once
#include "../params/curve.cuh"
#include "jacobian.cuh"

// s = [|x|] P for P = (s.x, s.y), not infinity; P is saved in base. 63 doublings, 5 additions.
//
// The formulas use no constant of the curve, so (s.x, s.y) may be those of a Jacobian (X, Y, Z): an
// affine point of y^2 = x^3 + b Z^6. The caller then multiplies the product's z by Z.
template <class F, class Cell>
FN void multiply_by_parameter(JacobianAccumulator<F, Cell>& s, Cell& base_x, Cell& base_y) {
    base_x = F(s.x);
    base_y = F(s.y);
    s.z = one<F>();
#pragma unroll 1
    for (int bit = 62; bit >= 0; bit--) {
        double_in_place(s);
        if (CURVE_PARAMETER >> bit & 1) add_in_place(s, base_x, base_y);
    }
}
// Whether p equals the affine point (x, y). x and y are loose.
template <class F, class Cell>
FN bool same_point(const JacobianAccumulator<F, Cell>& p, const Cell& x, const Cell& y) {
    if (is_zero_loose(F(p.z))) return false;
    const F zz = squared(F(p.z));
    if (!is_zero_loose(sub_loose(times(F(x), zz), F(p.x)))) return false;
    return is_zero_loose(sub_loose(times(F(y), times(zz, F(p.z))), F(p.y)));
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

// Working state of a membership test; Cell as in JacobianAccumulator.
template <class F, class Cell = F> struct SubgroupTest {
    JacobianAccumulator<F, Cell> multiple;
    Cell base_x, base_y, z;
};
// point() returns the point to test: on the curve, canonical. It is called twice, so that the point
// need not be stored.
template <class Cell, class Point>
FN bool in_subgroup(SubgroupTest<Fp, Cell>& m, Point point) {
    auto& s = m.multiple;
    Affine<Fp> p = point();
    s.x = p.x, s.y = p.y, m.z = one<Fp>();
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
        multiply_by_parameter<Fp>(s, m.base_x, m.base_y);
        const Fp z = times(Fp(s.z), Fp(m.z));
        s.z = z, m.z = z;
    }
    p = point();
    m.base_x = times(p.x, fp_constant(BETA));
    m.base_y = neg_lazy<2>(p.y);
    return is_infinity(p) || same_point<Fp>(s, m.base_x, m.base_y);
}
template <class Cell, class Point>
FN bool in_subgroup(SubgroupTest<Fp2, Cell>& m, Point point) {
    auto& s = m.multiple;
    Affine<Fp2> p = point();
    s.x = p.x, s.y = p.y;
    multiply_by_parameter<Fp2>(s, m.base_x, m.base_y);
    p = point();
    m.base_x = times(conjugate(p.x), fp2_constant(PSI_X));
    const Fp2 minus_y = {neg_lazy<2>(p.y.c0), p.y.c1}; // minus the conjugate: [x] = -[|x|]
    m.base_y = times(minus_y, fp2_constant(PSI_Y));
    return is_infinity(p) || same_point<Fp2>(s, m.base_x, m.base_y);
}
