// Single point operations, for the self-test at every start and for the tests against arkworks.
//
// Kernels *_points: out[i] = op(a[i], b[i]), canonical affine. The projective operand a is scaled
// by z[i], and a projective b by z[i]^2, so that equal points differ in their coordinates. z[i] is
// canonical and not 0.
//   op 0  XYZZ a + affine b        4  Jacobian a + affine b
//   op 1  XYZZ a + XYZZ b          5  Jacobian a + Jacobian b
//   op 2  2 a in XYZZ              6  2 a in Jacobian
//   op 3  -a in XYZZ               7  -a in Jacobian
//   op 8  -a in affine
//
// Points are x, y in Montgomery form; infinity is zeros. Blocks of 64, any grid; no barriers.
#define CURVE_CALLS_FP
#include "curve.cuh"
#include "memory.cuh"

template <class F> FN Xyzz<F> scaled_xyzz(const Affine<F>& p, const F& z) {
    if (is_infinity(p)) return xyzz_infinity<F>();
    const F zz = squared(z), zzz = times(zz, z);
    return {times(p.x, zz), times(p.y, zzz), zz, zzz};
}
template <class F> FN Jacobian<F> scaled_jacobian(const Affine<F>& p, const F& z) {
    const Xyzz<F> s = scaled_xyzz(p, z);
    return {s.x, s.y, is_infinity(p) ? zero<F>() : z};
}
template <class F> FN Xyzz<F> to_xyzz(const Jacobian<F>& p) {
    if (is_infinity(p)) return xyzz_infinity<F>();
    const F zz = squared(p.z);
    return {p.x, p.y, zz, times(p.z, zz)};
}
template <class F> FN Xyzz<F> apply_xyzz(uint32_t op, const Affine<F>& a, const Affine<F>& b,
                                         const F& z) {
    Xyzz<F> s = scaled_xyzz(a, z);
    if (op == 0) accumulate(s, b);
    if (op == 1) s = add(s, scaled_xyzz(b, squared(z)));
    if (op == 2) s = dbl(s);
    if (op == 3) s = negate(s);
    return s;
}
template <class F> FN Jacobian<F> apply_jacobian(uint32_t op, const Affine<F>& a,
                                                 const Affine<F>& b, const F& z) {
    Jacobian<F> s = scaled_jacobian(a, z);
    if (op == 4) s = add(s, b);
    if (op == 5) s = add(s, scaled_jacobian(b, squared(z)));
    if (op == 6) s = dbl(s);
    if (op == 7) s = negate(s);
    return s;
}
// The only inversion, since each copy takes seconds to compile.
template <class F>
FN Affine<F> apply(uint32_t op, const Affine<F>& a, const Affine<F>& b, const F& z) {
    if (op == 8) {
        const Affine<F> minus = negate(a);
        return {minus.x, canonical(minus.y)};
    }
    return to_affine(op < 4 ? apply_xyzz(op, a, b, z) : to_xyzz(apply_jacobian(op, a, b, z)));
}
template <class F>
FN void apply_all(Affine<F>* out, const Affine<F>* a, const Affine<F>* b, const F* z, uint32_t n,
                  uint32_t op) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        store_affine(out + i, apply(op, load_affine(a + i), load_affine(b + i), load<F>(z + i)));
    }
}
KERNEL(64)
g1_selftest_points(Affine<Fp>* out, const Affine<Fp>* a, const Affine<Fp>* b, const Fp* z,
                   uint32_t n, uint32_t op) {
    apply_all(out, a, b, z, n, op);
}
EXPORT_KERNEL(g1_selftest_points);

KERNEL(64)
g2_selftest_points(Affine<Fp2>* out, const Affine<Fp2>* a, const Affine<Fp2>* b, const Fp2* z,
                   uint32_t n, uint32_t op) {
    apply_all(out, a, b, z, n, op);
}
EXPORT_KERNEL(g2_selftest_points);
