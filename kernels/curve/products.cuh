// Products for the curve's formulas: inlined over Fp, called over Fp2.
//
// A product of Fp2 has 1100 instructions, and an addition of ten of them would exceed the
// instruction cache. Arguments and results of these calls are passed in registers.
#pragma once
#include "../field/karatsuba.cuh"
#include "../field2.cuh"

NOINLINE Fp2 fp2_mul(Fp2 a, Fp2 b) { return mul(a, b); }
NOINLINE Fp2 fp2_sqr(Fp2 a) { return sqr(a); }
NOINLINE Fp2 fp2_mul_sub_mul(Fp2 a, Fp2 b, Fp2 c, Fp2 d) { return mul_sub_mul(a, b, c, d); }

// Modules of cold kernels define CURVE_CALLS_FP before their includes, to compile in seconds.
#ifdef CURVE_CALLS_FP
NOINLINE Fp times(Fp a, Fp b) { return mul_karatsuba(a, b); }
NOINLINE Fp squared(Fp a) { return sqr(a); }
NOINLINE Fp times_minus_times(Fp a, Fp b, Fp c, Fp d) { return mul_sub_mul(a, b, c, d); }
#else
FN Fp times(const Fp& a, const Fp& b) { return mul_karatsuba(a, b); }
FN Fp squared(const Fp& a) { return sqr(a); }
// a b - c d.
FN Fp times_minus_times(const Fp& a, const Fp& b, const Fp& c, const Fp& d) {
    return mul_sub_mul(a, b, c, d);
}
#endif
FN Fp2 times(const Fp2& a, const Fp2& b) { return fp2_mul(a, b); }
FN Fp2 squared(const Fp2& a) { return fp2_sqr(a); }
FN Fp2 times_minus_times(const Fp2& a, const Fp2& b, const Fp2& c, const Fp2& d) {
    return fp2_mul_sub_mul(a, b, c, d);
}
