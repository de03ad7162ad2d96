// A tile of elements in shared memory, and the elements of each thread.
//
// A tile's index q consists of the row's bits and the column's, see passes.cuh. In a register step
// a thread has the 2^E elements whose indices differ in a field of E bits, q = base | slot <<
// field.
//
// Banks. Half an element is 16 bytes; eight lanes are served at a time if their halves are in
// different sixteenths of 128 bytes. swizzle(q) xors bits 3 and up into the low three so that the
// three lowest bits outside any field of 1 to 3 bits select eight different ones (checked below).
// The low halves of eight elements are stored together, then their high halves with the groups of
// four swapped, so that lanes that read both halves of four elements are also served at once.
#pragma once
#include "../field.cuh"
#include "../quad.cuh"

// Bits 3, 4, 5 add 7, 5, 6; higher even bits add 1 and odd ones 2. Linear over xor; q < 2^12.
constexpr FN uint32_t swizzle(uint32_t q) {
    const uint32_t y = q >> 3, quarters = y ^ y >> 4 ^ y >> 8, halves = quarters ^ quarters >> 2;
    const uint32_t low = (halves >> 1 ^ y) & 1, middle = halves & 1, high = y ^ y >> 1 ^ y >> 2;
    return q ^ low ^ middle << 1 ^ (high & 1) << 2;
}
constexpr bool swizzle_has_no_conflicts() {
    for (int width = 1; width <= 3; width++) {
        for (int field = 0; field + width <= 11; field++) {
            uint32_t groups = 0;
            for (uint32_t lane = 0; lane < 8; lane++) {
                const uint32_t low = lane & ((1u << field) - 1);
                groups |= 1u << (swizzle(low | (lane ^ low) << width) & 7);
            }
            if (groups != 0xff) return false;
        }
    }
    return true;
}
static_assert(swizzle_has_no_conflicts());

// The position of element q's low half; the high half is at place ^ HIGH_HALF. Linear over xor, so
// the place of a sum of bits is the xor of the places of bits, which are cheap.
constexpr uint32_t HIGH_HALF = 12;
constexpr FN uint32_t place(uint32_t q) {
    const uint32_t swizzled = swizzle(q);
    return swizzled + (swizzled & ~7u);
}
constexpr FN uint64_t swizzled_bits() {
    uint64_t codes = 0;
    for (int bit = 3; bit < 12; bit++) codes |= uint64_t(swizzle(1u << bit) & 7) << 4 * bit;
    return codes;
}
// place(1 << bit).
FN uint32_t place_of_bit(uint32_t bit) {
    constexpr uint64_t CODES = swizzled_bits();
    return (bit < 3 ? 1u : 2u) << bit | uint32_t(CODES >> 4 * bit & 7);
}

// The tile index of thread t's first element.
template <int E> FN uint32_t first_index(uint32_t t, uint32_t field) {
    const uint32_t low = t & ((1u << field) - 1);
    return low | (t ^ low) << E;
}
// offsets[e] = the xor of `bits` over the set bits of element e's slot in its field. Kernels only
// have the roots of forward transforms: frequency f of an inverse transform is frequency -f of a
// forward one, which in bit-reversed order flips the bits below the highest set bit. `inverse_mask`
// is all ones for an inverse transform, else 0.
template <int E>
FN void slot_offsets(uint32_t* offsets, const uint32_t* bits, uint32_t inverse_mask) {
    uint32_t lower = 0; // all bits below
    offsets[0] = 0;
#pragma unroll
    for (uint32_t j = 0; j < E; j++) {
        offsets[1u << j] = bits[j] ^ (lower & inverse_mask);
        lower ^= bits[j];
#pragma unroll
        for (uint32_t e = 1; e < 1u << j; e++) {
            uint32_t rest = 0;
#pragma unroll
            for (uint32_t i = 0; i < j; i++) rest ^= e >> i & 1 ? bits[i] : 0;
            offsets[1u << j | e] = offsets[1u << j] ^ rest;
        }
    }
}
// The slots, times 2^field.
template <int E> FN void slots(uint32_t* offsets, uint32_t field, uint32_t inverse_mask) {
    uint32_t bits[E];
#pragma unroll
    for (uint32_t j = 0; j < E; j++) bits[j] = 1u << (field + j);
    slot_offsets<E>(offsets, bits, inverse_mask);
}
// The places of the slots in a tile.
template <int E> FN void slot_places(uint32_t* offsets, uint32_t field, uint32_t inverse_mask) {
    uint32_t bits[E];
#pragma unroll
    for (uint32_t j = 0; j < E; j++) bits[j] = place_of_bit(field + j);
    slot_offsets<E>(offsets, bits, inverse_mask);
}

FN Fr from_halves(const Quad& low, const Quad& high) {
    return {{low.w[0], low.w[1], low.w[2], low.w[3], high.w[0], high.w[1], high.w[2], high.w[3]}};
}
FN void store_halves(Quad* low, Quad* high, const Fr& x) {
    *low = {{x.w[0], x.w[1], x.w[2], x.w[3]}};
    *high = {{x.w[4], x.w[5], x.w[6], x.w[7]}};
}
// Copy a thread's elements to and from shared memory; `at` is the place of the first one.
template <int E>
FN void put_in_tile(Quad* tile, uint32_t at, uint32_t field, uint32_t inverse_mask, const Fr* x) {
    uint32_t offsets[1 << E];
    slot_places<E>(offsets, field, inverse_mask);
#pragma unroll
    for (int e = 0; e < 1 << E; e++) {
        const uint32_t here = at ^ offsets[e];
        store_halves(tile + here, tile + (here ^ HIGH_HALF), x[e]);
    }
}
template <int E>
FN void get_from_tile(const Quad* tile, uint32_t at, uint32_t field, uint32_t inverse_mask, Fr* x) {
    uint32_t offsets[1 << E];
    slot_places<E>(offsets, field, inverse_mask);
#pragma unroll
    for (int e = 0; e < 1 << E; e++) {
        const uint32_t here = at ^ offsets[e];
        x[e] = from_halves(tile[here], tile[here ^ HIGH_HALF]);
    }
}
