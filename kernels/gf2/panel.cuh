// Panels of 256 columns of matrices of bits, for elimination over GF(2).
//
// A matrix lies in strips of 256 columns: row r of strip s is the eight words from
// 8 (s rows + r) on, the lowest column in the lowest bit. The panel is the strip whose columns are
// eliminated. A pivot's slot is its leading column in the panel, from 0 to 255.
#pragma once
#include "../warp.cuh"

constexpr uint32_t PANEL = 256, ROW_WORDS = PANEL / 32;
// A slot without a pivot.
constexpr uint32_t NONE = 0xffffffff;
// Marks a pivot that is one of the rows; the others are given.
constexpr uint32_t PROMOTED = 0x80000000;

// The lowest bit of a word that is not zero.
FN uint32_t lowest_bit(uint32_t word) { return 31 - leading_zeros(word & (0u - word)); }
// All ones if the bit of a word is set, else zero.
FN uint32_t mask_of(uint32_t word, uint32_t bit) { return 0u - (word >> bit & 1); }

// 256 bits of a row.
struct alignas(16) PanelRow {
    uint32_t w[ROW_WORDS];

    static FN PanelRow zero() { return {{0, 0, 0, 0, 0, 0, 0, 0}}; }
    // One bit: a slot.
    static FN PanelRow unit(uint32_t slot) {
        PanelRow row;
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) {
            row.w[i] = slot / 32 == i ? 1u << slot % 32 : 0;
        }
        return row;
    }
    FN void add(const PanelRow& other) {
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) w[i] ^= other.w[i];
    }
    FN bool is_zero() const {
        uint32_t all = 0;
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) all |= w[i];
        return all == 0;
    }
    FN uint32_t count() const {
        uint32_t count = 0;
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) count += uint32_t(__popc(w[i]));
        return count;
    }
    // The lowest bit; meaningless for a row of zeros.
    FN uint32_t leading() const {
        uint32_t word[ROW_WORDS], first[ROW_WORDS];
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) word[i] = w[i], first[i] = 32 * i;
        UNROLL
        for (uint32_t n = ROW_WORDS / 2; n > 0; n /= 2) {
            UNROLL
            for (uint32_t i = 0; i < n; i++) {
                const bool is_left = word[2 * i] != 0;
                word[i] = is_left ? word[2 * i] : word[2 * i + 1];
                first[i] = is_left ? first[2 * i] : first[2 * i + 1];
            }
        }
        return first[0] + lowest_bit(word[0]);
    }
    // Adds another row if `mask` is all ones; it is all ones or zero.
    FN void add_masked(const PanelRow& other, uint32_t mask) {
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) w[i] ^= other.w[i] & mask;
    }
};

// The elimination of a panel.
struct alignas(16) PanelPlan {
    // The slots that have a pivot.
    PanelRow present;
    // The blocks that have updated the panel's strip; zero between launches.
    uint32_t updated;
    // All rows before this one were promoted by panels before the last one for which this plan was
    // used. Zero at the start.
    uint32_t first_row;
    uint32_t unused[2];
    // For each slot, the row of the pivot, with PROMOTED if it is one of the rows; NONE.
    uint32_t source[PANEL];
    // For each slot of a promoted row, the pivots whose sum is the row reduced by those with lower
    // slots.
    PanelRow reduced[PANEL];
    // For each slot, the pivots whose sum is the pivot without the columns of all others.
    PanelRow separated[PANEL];
};
