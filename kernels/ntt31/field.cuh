// Arithmetic modulo a prime p below 2^31 that is a kernel argument: its words, and the constants of
// butterflies, come from the constant bank. Values are canonical words below p unless a comment
// says otherwise.
#pragma once
#include "carry.cuh"
#include <type_traits>

// A twiddle factor w with its Shoup quotient floor(w 2^32 / p).
struct alignas(8) Twiddle31 {
    uint32_t factor, quotient;
};

// An entry of a table that no kernel writes: its load may move across barriers.
FN Twiddle31 entry(const Twiddle31* table) {
#ifdef __CUDACC__
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(table));
    return {words.x, words.y};
#else
    return *table;
#endif
}
FN uint32_t entry(const uint32_t* table) {
#ifdef __CUDACC__
    return __ldg(table);
#else
    return *table;
#endif
}

constexpr uint32_t LG_RADIX_MAX = 5;
constexpr uint32_t UNITS = 1 << (LG_RADIX_MAX - 1);

struct Modulus31 {
    uint32_t p;
    uint32_t minus_p;   // 2^32 - p
    uint32_t p_inverse; // 1/p mod 2^32
    uint32_t r_squared; // 2^64 mod p
};
// Functions that are templates of the type of the prime multiply in the way of that type:
// ../bench/reductions31.cuh has other ways.
struct Prime31 : Modulus31 {
    Twiddle31 unit[UNITS]; // powers of the root of order 32, or of its inverse
};

// The type of twiddle factors that suits a type of prime.
template <class Prime>
using FactorOf31 = std::remove_reference_t<decltype(Prime::unit[0])>;

// min(a + b, c): one instruction on sm_90 and later.
FN uint32_t add_min(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
    return __viaddmin_u32(a, b, c);
#else
    return a + b < c ? a + b : c;
#endif
}

// x from [0, 2p) to [0, p): the wrong one of x and x - p is the larger one.
FN uint32_t reduced(uint32_t x, const Modulus31& f) { return add_min(x, f.minus_p, x); }
FN uint32_t add(uint32_t a, uint32_t b, const Modulus31& f) { return reduced(a + b, f); }
FN uint32_t subtract(uint32_t a, uint32_t b, const Modulus31& f) {
    const uint32_t difference = a - b;
    return add_min(difference, f.p, difference);
}
// Below 2p: for factors of products, which may be any words.
FN uint32_t lazy_add(uint32_t a, uint32_t b, const Modulus31&) { return a + b; }
FN uint32_t lazy_subtract(uint32_t a, uint32_t b, const Modulus31& f) { return a - b + f.p; }
// x w for any word x, by Shoup's quotient: one high product and two low ones.
FN uint32_t multiply(uint32_t x, const Twiddle31& w, const Modulus31& f) {
    const uint32_t quotient = __umulhi(x, w.quotient);
    return reduced(x * w.factor + quotient * f.minus_p, f);
}
// a b / 2^32 for b below p and any word a: with a constant b in Montgomery form, the product of a.
FN uint32_t montgomery(uint32_t a, uint32_t b, const Modulus31& f) {
    const uint64_t product = uint64_t(a) * b;
    const uint32_t multiple = uint32_t(product) * f.p_inverse;
    const uint32_t difference = uint32_t(product >> 32) - __umulhi(multiple, f.p);
    return add_min(difference, f.p, difference);
}
// 1/x in Montgomery form, and 0 for 0: x^(p - 2).
FN uint32_t inverse(uint32_t x, const Modulus31& f) {
    const uint32_t exponent = f.p - 2;
    uint32_t power = x;
    for (int bit = 30 - __clz(exponent); bit >= 0; bit--) {
        power = montgomery(power, power, f);
        if (exponent >> bit & 1) power = montgomery(power, x, f);
    }
    return power;
}
// x times a power that is computed on the way, in Montgomery form.
FN uint32_t multiply_by_power(uint32_t x, uint32_t power, const Modulus31& f) {
    return montgomery(x, power, f);
}

// x of at most 5 bits, reversed. Without a loop, which nvcc would keep.
FN constexpr uint32_t reversed(uint32_t x, uint32_t bits) {
    return ((x & 1) << 4 | (x & 2) << 2 | (x & 4) | (x & 8) >> 2 | (x & 16) >> 4) >> (5 - bits);
}

// DIF of 2^K words in registers: x[l] becomes the value of frequency reversed(l, K). If the outputs
// are factors of products, all but the first one may stay below 2 p.
template <uint32_t K, bool FACTORS, uint32_t STAGE = 0, class Prime>
FN void dif(uint32_t (&x)[1 << K], const Prime& f) {
    if constexpr (STAGE < K) {
        constexpr uint32_t HALF = 1 << (K - 1 - STAGE);
        constexpr bool IS_LAZY = FACTORS && HALF == 1;
#pragma unroll
        for (uint32_t n = 0; n < (1 << K) / 2; n++) {
            const uint32_t i = n % HALF, low = n / HALF * 2 * HALF + i;
            const uint32_t a = x[low], b = x[low + HALF];
            x[low] = IS_LAZY && low > 0 ? lazy_add(a, b, f) : add(a, b, f);
            if (i == 0) x[low + HALF] = IS_LAZY ? lazy_subtract(a, b, f) : subtract(a, b, f);
            else x[low + HALF] = multiply(lazy_subtract(a, b, f), f.unit[i * (UNITS / HALF)], f);
        }
        dif<K, FACTORS, STAGE + 1>(x, f);
    }
}

// DIT, the transpose: x[l] is the value of frequency reversed(l, K) and becomes that of point l.
template <uint32_t K, uint32_t STAGE = 0, class Prime>
FN void dit(uint32_t (&x)[1 << K], const Prime& f) {
    if constexpr (STAGE < K) {
        constexpr uint32_t HALF = 1 << STAGE;
#pragma unroll
        for (uint32_t n = 0; n < (1 << K) / 2; n++) {
            const uint32_t i = n % HALF, low = n / HALF * 2 * HALF + i;
            const uint32_t a = x[low];
            const uint32_t b =
                i == 0 ? x[low + HALF] : multiply(x[low + HALF], f.unit[i * (UNITS / HALF)], f);
            // The next stage's factors may be any words.
            const bool is_factor = STAGE + 1 < K && (low & (2 * HALF));
            x[low] = is_factor && i > 0 ? lazy_add(a, b, f) : add(a, b, f);
            x[low + HALF] = is_factor ? lazy_subtract(a, b, f) : subtract(a, b, f);
        }
        dit<K, STAGE + 1>(x, f);
    }
}
