// Products as the curve's formulas use them: over Fp in line, over Fp2 by calls.
//
// A product of Fp2 is 1100 instructions, and an addition of ten of them would outgrow the
// instruction cache. Arguments and results of these calls stay in registers.
#pragma once
#include "../field/karatsuba.cuh"
#include "../field2.cuh"

RARE Fp2 fp2_mul(Fp2 a, Fp2 b) { return mul(a, b); }
RARE Fp2 fp2_sqr(Fp2 a) { return sqr(a); }
RARE Fp2 fp2_mul_sub_mul(Fp2 a, Fp2 b, Fp2 c, Fp2 d) { return mul_sub_mul(a, b, c, d); }

// A module of cold kernels defines CURVE_CALLS_FP before its includes, and compiles in seconds.
#ifdef CURVE_CALLS_FP
RARE Fp times(Fp a, Fp b) { return mul_karatsuba(a, b); }
RARE Fp squared(Fp a) { return sqr(a); }
RARE Fp times_minus_times(Fp a, Fp b, Fp c, Fp d) { return mul_sub_mul(a, b, c, d); }
#else
#ifdef CURVE_FEW_REGISTERS // where the product's 28 registers more cost more than they bring
FN Fp times(const Fp& a, const Fp& b) { return mul(a, b); }
#else
FN Fp times(const Fp& a, const Fp& b) { return mul_karatsuba(a, b); }
#endif
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
