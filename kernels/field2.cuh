// Fp2 = Fp[u] / (u^2 + 1): c0 + c1 u. Memory layout as in arkworks: c0, c1.
//
// Each coordinate has the ranges of field.cuh, except in products: mul(a, b), sqr(a) and
// mul_sub_mul(a, b, c, d) require coordinates below 2 p and return coordinates below 2 p. A product
// costs three Fp products and two reductions.
#pragma once
#include "field2_product.cuh"
#include "inverse.cuh"

struct Fp2 {
    Fp c0, c1;
    static FN Fp2 zero() { return {Fp::zero(), Fp::zero()}; }
    static FN Fp2 one() { return {Fp::one(), Fp::zero()}; }
};

FN bool is_zero(const Fp2& a) { return is_zero(a.c0) & is_zero(a.c1); }
FN bool same_limbs(const Fp2& a, const Fp2& b) {
    return same_limbs(a.c0, b.c0) & same_limbs(a.c1, b.c1);
}
FN Fp2 blend(uint32_t mask, const Fp2& a, const Fp2& b) {
    return {blend(mask, a.c0, b.c0), blend(mask, a.c1, b.c1)};
}
FN bool is_canonical(const Fp2& a) { return is_canonical(a.c0) & is_canonical(a.c1); }

FN Fp2 add(const Fp2& a, const Fp2& b) { return {add(a.c0, b.c0), add(a.c1, b.c1)}; }
FN Fp2 sub(const Fp2& a, const Fp2& b) { return {sub(a.c0, b.c0), sub(a.c1, b.c1)}; }
FN Fp2 neg(const Fp2& a) { return {neg(a.c0), neg(a.c1)}; }
FN Fp2 dbl(const Fp2& a) { return {dbl(a.c0), dbl(a.c1)}; }
FN Fp2 canonical(const Fp2& a) { return {canonical(a.c0), canonical(a.c1)}; }
FN Fp2 add_lazy(const Fp2& a, const Fp2& b) {
    return {add_lazy(a.c0, b.c0), add_lazy(a.c1, b.c1)};
}
template <int K> FN Fp2 sub_lazy(const Fp2& a, const Fp2& b) {
    return {sub_lazy<K>(a.c0, b.c0), sub_lazy<K>(a.c1, b.c1)};
}
template <int K> FN Fp2 neg_lazy(const Fp2& a) { return {neg_lazy<K>(a.c0), neg_lazy<K>(a.c1)}; }
template <int K> FN Fp2 reduce_once(const Fp2& a) {
    return {reduce_once<K>(a.c0), reduce_once<K>(a.c1)};
}
FN Fp2 to_montgomery(const Fp2& a) { return {to_montgomery(a.c0), to_montgomery(a.c1)}; }
FN Fp2 from_montgomery(const Fp2& a) { return {from_montgomery(a.c0), from_montgomery(a.c1)}; }

FN Fp2 mul(const Fp2& a, const Fp2& b) { return mul_dot(a, b); }
// (c0 + c1)(c0 - c1) and 2 c0 c1.
FN Fp2 sqr(const Fp2& a) {
    const Fp sum = reduce_once<2>(add_lazy(a.c0, a.c1));
    return {mul(sub_lazy<2>(a.c0, a.c1), sum), mul(add_lazy(a.c0, a.c0), a.c1)};
}
FN Fp2 mul_sub_mul(const Fp2& a, const Fp2& b, const Fp2& c, const Fp2& d) {
    return mul_sub_mul_dot(a, b, c, d);
}
// 1 / (c0 + c1 u) = (c0 - c1 u) / (c0^2 + c1^2), canonical; 0 for 0. Coordinates below 2 p.
FN Fp2 inverse(const Fp2& a) {
    const Fp norm = inverse(mul_add_mul(a.c0, a.c0, a.c1, a.c1));
    return {canonical(mul(a.c0, norm)), canonical(mul(neg_lazy<2>(a.c1), norm))};
}
