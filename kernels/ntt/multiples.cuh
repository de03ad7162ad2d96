// A constant that a kernel takes by value.
#pragma once
#include "../field.cuh"

// Two precomputed multiples of a factor (../field/fr.cuh).
struct FactorMultiples {
    Fr w[2];
    // a times the factor, for any a: below 1.001 r.
    FN Fr times(const Fr& a) const { return mul_constant<2>(a, PrecomputedMultiples{w}); }
};
