// Tiles: the limbs that a block computes, up to a carry of one into them. A product's parts
// (recombine.cuh) each consist of whole tiles and a shorter last one. Tiles are counted through all
// parts of a row.
#pragma once
#include "../quad.cuh"

constexpr uint32_t LIMB_THREADS = 512;
// The first threads of a block are ghosts: they only find what the tile below carries into this
// one. One would do; these keep tiles at multiples of 128 bytes.
constexpr uint32_t GHOSTS = 8;
constexpr uint32_t TILE_QUADS = LIMB_THREADS - GHOSTS;

// The tile of each part that a block computes: the blocks of a row follow those of the row before.
struct RowTile {
    uint32_t row, index;
    // Tiles of a part.
    uint32_t count;

    static FN RowTile of_block(uint32_t count) {
        return {blockIdx.x / count, blockIdx.x % count, count};
    }
};

// Flags of a tile, which are not both set.
constexpr uint8_t GENERATES = 1, PASSES = 2;

constexpr uint32_t ALL_ONES = 0xffffffff;
FN bool are_ones(const uint32_t* w) { return (w[0] & w[1] & w[2] & w[3]) == ALL_ONES; }

// Adds one to four limbs. A carry out of them is dropped.
FN void add_one(uint32_t* w) {
    w[0] = add_cc(w[0], 1);
    w[1] = addc_cc(w[1], 0);
    w[2] = addc_cc(w[2], 0);
    w[3] = addc(w[3], 0);
}

// Four limbs from `at` on, with ones instead of those from limb_count on.
FN Quad load_quad(const uint32_t* limbs, uint32_t limb_count, uint64_t at) {
    if (at + 4 <= limb_count) return *reinterpret_cast<const Quad*>(limbs + at);
    Quad quad;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) quad.w[i] = at + i < limb_count ? limbs[at + i] : ALL_ONES;
    return quad;
}
// Stores four limbs, except for those from limb_count on.
FN void store_quad(uint32_t* limbs, uint32_t limb_count, uint64_t at, const uint32_t* w) {
    if (at + 4 <= limb_count) {
        *reinterpret_cast<Quad*>(limbs + at) = {w[0], w[1], w[2], w[3]};
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        if (at + i < limb_count) limbs[at + i] = w[i];
    }
}
