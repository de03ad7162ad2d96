// The two prime fields of BLS12-381 on 32-bit limbs: Fp (12 limbs) and Fr (8), in Montgomery form
// with radix R = 2^384 and 2^256. The memory layout is that of arkworks: R x mod the modulus,
// canonical, least significant limb first.
//
// Ranges. An element is an integer that represents its residue class. The table gives the range of
// each function's arguments and result; ASSERT_RANGE checks it on the emulated driver and costs
// nothing on a GPU. "Canonical" is below the modulus q. Lazy values may be larger: 2^384 = 9.84 p,
// 2^256 = 2.208 r.
//
//   function                        arguments                    result
//   add, sub, neg, dbl              canonical                    canonical
//   add_lazy(a, b)                  a + b below R                a + b
//   sub_lazy<K>(a, b)               b <= K q, a + K q below R    a - b + K q
//   neg_lazy<K>(a)                  a <= K q                     K q - a
//   reduce_once<K>(a)               any                          a - K q if a >= K q, else a
//   canonical(a)                    Fp: a < 4 p; Fr: any         canonical
//   mul(a, b), sqr(a)               Fp: a b <= 9.8 p^2           < p (1.001 + a b / (9.84 p^2))
//                                   Fr: a b < r R, b < 1.2 r;    < r + a b / R: < 2 r
//                                   sqr < 2^255
//   mul_add_mul(a, b, c, d)         Fp: a b + c d <= 9.8 p^2     < 2 p, as mul
//   mul_sub_mul(a, b, c, d)         Fp: c <= 2 p,                < 2 p, as mul
//                                       a b + (2 p - c) d <= 9.8 p^2
//   mul_constant<K>(a, w)           Fr: any                      < 1.001 r (K > 1), < 2 r (K = 1)
//   to_montgomery, from_montgomery  Fp: < 7.8 p; Fr: any         canonical
//   inverse(a) (inverse.cuh)        as canonical                 canonical
//
// For Fp the left factors, a (or a + c), are also below 7.8 p. For Fr the range means that the
// first factor is arbitrary if the second is canonical.
#pragma once
#include "field/limbs.cuh"
#include "field/product.cuh"
#include "field/fp.cuh"
#include "field/fr.cuh"
