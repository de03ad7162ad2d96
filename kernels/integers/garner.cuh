// Garner's algorithm: a coefficient from its residues modulo three primes, all constants here.
#pragma once
#include "../quad.cuh"

constexpr uint32_t PRIMES = 3;
constexpr uint32_t P0 = 469762049, P1 = 1811939329, P2 = 2013265921;
static_assert(P0 < P1 && P1 < P2 && P2 < 0x80000000, "differences of residues are below 2^32");

// The residues of a coefficient, each canonical.
struct Residues {
    uint32_t modulo[PRIMES];
};

// 1 / a modulo the prime p.
constexpr uint32_t inverse(uint64_t a, uint32_t p) {
    uint64_t result = 1;
    for (uint32_t exponent = p - 2; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result = result * a % p;
        a = a * a % p;
    }
    return uint32_t(result);
}
constexpr uint32_t P0_INVERSE_1 = inverse(P0, P1), P0_INVERSE_2 = inverse(P0, P2),
                   P1_INVERSE_2 = inverse(P1, P2);

// min(a + b, c): one instruction on sm_90 and later.
FN uint32_t add_min(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
    return __viaddmin_u32(a, b, c);
#else
    return a + b < c ? a + b : c;
#endif
}

// x from [0, 2P) to [0, P): the wrong one of x and x - P is the larger one.
template <uint32_t P> FN uint32_t reduced(uint32_t x) { return add_min(x, 0u - P, x); }
template <uint32_t P> FN uint32_t add(uint32_t a, uint32_t b) { return reduced<P>(a + b); }
template <uint32_t P> FN uint32_t subtract(uint32_t a, uint32_t b) {
    const uint32_t difference = a - b;
    return add_min(difference, P, difference);
}
// x w modulo P for any word x, by Shoup's quotient.
template <uint32_t P, uint32_t W> FN uint32_t multiply(uint32_t x) {
    constexpr uint32_t QUOTIENT = uint32_t((uint64_t(W) << 32) / P);
    const uint32_t quotient = __umulhi(x, QUOTIENT);
    return reduced<P>(x * W + quotient * (0u - P));
}

// Adds a coefficient to `carry`, of at most 60 bits. Returns the lowest limb of the sum; the other
// limbs, of at most 60 bits again, are the next carry.
FN uint32_t add_coefficient(uint64_t& carry, const Residues& r) {
    // The coefficient is r0 + P0 (t1 + P1 t2).
    const uint32_t r0 = r.modulo[0];
    const uint32_t t1 = multiply<P1, P0_INVERSE_1>(r.modulo[1] - r0 + P1);
    const uint32_t quotient = multiply<P2, P0_INVERSE_2>(r.modulo[2] - r0 + P2);
    const uint32_t t2 = multiply<P2, P1_INVERSE_2>(quotient - t1 + P2);
    const uint64_t digits = wide_product(t2, P1) + t1;
    const uint64_t sum = wide_product(uint32_t(digits), P0) + (carry + r0);
    carry = wide_product(uint32_t(digits >> 32), P0) + (sum >> 32);
    ASSERT_RANGE(carry >> 60 == 0);
    return uint32_t(sum);
}
