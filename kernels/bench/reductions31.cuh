// Ways to multiply modulo a prime below 2^31, as types of the prime for the templates of ../ntt31.
//
//   Shoup31         what ../ntt31 does
//   Harvey31        Shoup's product without its correction: words below 2p; p < 2^30
//   Montgomery31    twiddles in Montgomery form
//   Plantard31      the fraction x w / p in 64 bits, times p; no correction
//   Barrett31       quotient by a reciprocal, from all 64 bits of the product
//   BarrettShort31  quotient from the product's upper 32 bits; p < 2^32 / 3
//   Remainder31     the operator %
#pragma once
#include "../ntt31/powers.cuh"

template <class T> struct MeasuredPrime31 : Modulus31 {
    uint32_t two_p, minus_two_p;
    uint32_t reciprocal; // floor(2^(31 + bits of p) / p)
    uint32_t shift;      // bits of p - 1
    union {
        T unit[UNITS];
        Twiddle31 largest[UNITS]; // so that all types have one size
    };
};

// Words below p, unless the prime's type has an overload.
FN uint32_t canonical(uint32_t x, const Modulus31&) { return x; }

struct Shoup31 : MeasuredPrime31<Twiddle31> {};

struct Harvey31 : MeasuredPrime31<Twiddle31> {};
FN uint32_t multiply(uint32_t x, const Twiddle31& w, const Harvey31& f) {
    return x * w.factor + __umulhi(x, w.quotient) * f.minus_p;
}
FN uint32_t add(uint32_t a, uint32_t b, const Harvey31& f) {
    return add_min(a + b, f.minus_two_p, a + b);
}
FN uint32_t subtract(uint32_t a, uint32_t b, const Harvey31& f) {
    return add_min(a - b, f.two_p, a - b);
}
FN uint32_t lazy_subtract(uint32_t a, uint32_t b, const Harvey31& f) { return a - b + f.two_p; }
FN uint32_t canonical(uint32_t x, const Harvey31& f) { return reduced(x, f); }

struct Montgomery31 : MeasuredPrime31<uint32_t> {};
FN uint32_t multiply(uint32_t x, uint32_t w, const Montgomery31& f) { return montgomery(x, w, f); }

// floor(w 2^64 / p) + 1.
struct alignas(8) PlantardTwiddle31 {
    uint32_t low, high;
};
FN PlantardTwiddle31 entry(const PlantardTwiddle31* table) {
    const Twiddle31 words = entry(reinterpret_cast<const Twiddle31*>(table));
    return {words.factor, words.quotient};
}
struct Plantard31 : MeasuredPrime31<PlantardTwiddle31> {};
FN uint32_t multiply(uint32_t x, const PlantardTwiddle31& w, const Plantard31& f) {
    return __umulhi(__umulhi(x, w.low) + (x * w.high + 1), f.p);
}

// Factors below p: the quotient is at most 1 too small, or 2 if it is short.
struct BarrettFactors31 : MeasuredPrime31<uint32_t> {};
FN uint32_t lazy_add(uint32_t a, uint32_t b, const BarrettFactors31& f) { return add(a, b, f); }
FN uint32_t lazy_subtract(uint32_t a, uint32_t b, const BarrettFactors31& f) {
    return subtract(a, b, f);
}

struct Barrett31 : BarrettFactors31 {};
FN uint32_t multiply(uint32_t x, uint32_t w, const Barrett31& f) {
    const uint64_t product = wide_product(x, w);
    const uint64_t upper = wide_product(uint32_t(product >> 32), f.reciprocal) +
                           __umulhi(uint32_t(product), f.reciprocal);
    return reduced(uint32_t(product) + uint32_t(upper >> f.shift) * f.minus_p, f);
}
FN uint32_t multiply_by_power(uint32_t x, uint32_t power, const Barrett31& f) {
    return multiply(x, power, f);
}

struct BarrettShort31 : BarrettFactors31 {};
FN uint32_t multiply(uint32_t x, uint32_t w, const BarrettShort31& f) {
    const uint64_t product = wide_product(x, w);
    const uint32_t quotient = __umulhi(uint32_t(product >> f.shift), f.reciprocal);
    return reduced(reduced(uint32_t(product) + quotient * f.minus_p, f), f);
}
FN uint32_t multiply_by_power(uint32_t x, uint32_t power, const BarrettShort31& f) {
    return multiply(x, power, f);
}

struct Remainder31 : MeasuredPrime31<uint32_t> {};
FN uint32_t multiply(uint32_t x, uint32_t w, const Remainder31& f) {
    return uint32_t(wide_product(x, w) % f.p);
}
FN uint32_t multiply_by_power(uint32_t x, uint32_t power, const Remainder31& f) {
    return multiply(x, power, f);
}
