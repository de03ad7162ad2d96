// The coefficients of a product, from those modulo x^u - 1 and x^(2u) + 1.
//
// PARTS is the number of parts of u coefficients that a product has, 1 or 3. With U modulo x^u - 1
// and V = (V0, V1) modulo x^(2u) + 1:
//   1: only U is given, and is the product.
//   3: 2c = (U + V0 - V1, 2 V1, U - V0 - V1).
// Doubled coefficients must be below the product of the primes, 2^90.4.
#pragma once
#include "four_limbs.cuh"
#include "garner.cuh"

// A row's residues in natural order: for each prime the words of U, and those of V, `stride` words
// after those of the prime before it. `length` is u; it and the stride are multiples of 4.
struct ProductResidues {
    const uint32_t* cyclic;
    const uint32_t* negacyclic; // not read if PARTS = 1
    uint64_t stride;
    uint32_t length;
};

// The residues of four adjacent coefficients of each part, doubled if there are several parts.
template <uint32_t PARTS> struct FourCoefficients {
    Quad residues[PARTS][PRIMES];

    FN void load(const ProductResidues& input, uint32_t at) {
        load_modulo<0, P0>(input, at);
        load_modulo<1, P1>(input, at);
        load_modulo<2, P2>(input, at);
    }
    FN FourLimbs limbs(uint32_t part) const {
        FourLimbs sum = {};
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            sum.w[i] = add_coefficient(sum.carry, {residues[part][0].w[i], residues[part][1].w[i],
                                                   residues[part][2].w[i]});
        }
        if constexpr (PARTS > 1) {
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t above = i < 3 ? sum.w[i + 1] : uint32_t(sum.carry);
                sum.w[i] = funnel_right(sum.w[i], above, 1);
            }
            sum.carry >>= 1;
        }
        return sum;
    }

private:
    template <uint32_t PRIME, uint32_t P>
    FN void load_modulo(const ProductResidues& input, uint32_t at) {
        const uint64_t first = PRIME * input.stride + at;
        const Quad u = *reinterpret_cast<const Quad*>(input.cyclic + first);
        if constexpr (PARTS == 1) {
            residues[0][PRIME] = u;
        } else {
            const uint32_t* const negacyclic = input.negacyclic + first;
            const Quad low = *reinterpret_cast<const Quad*>(negacyclic);
            const Quad high = *reinterpret_cast<const Quad*>(negacyclic + input.length);
            UNROLL
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t rest = subtract<P>(u.w[i], high.w[i]);
                residues[0][PRIME].w[i] = add<P>(rest, low.w[i]);
                residues[1][PRIME].w[i] = add<P>(high.w[i], high.w[i]);
                residues[2][PRIME].w[i] = subtract<P>(rest, low.w[i]);
            }
        }
    }
};

// The source of a product's limbs.
template <uint32_t PARTS> struct ProductLimbs {
    ProductResidues residues;

    FN uint32_t quads() const { return residues.length / 4; }
    FN void compute(FourLimbs (&parts)[PARTS], uint32_t quad) const {
        FourCoefficients<PARTS> coefficients;
        coefficients.load(residues, 4 * quad);
        UNROLL
        for (uint32_t part = 0; part < PARTS; part++) parts[part] = coefficients.limbs(part);
    }
};
