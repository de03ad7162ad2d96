// The pivots of a panel, by one block.
#pragma once
#include "panel.cuh"

constexpr uint32_t THREADS = PANEL, WARPS = THREADS / LANES;

// What the elimination of a panel reads.
struct PanelInput {
    const PanelRow* rows;
    const PanelRow* given;
    // For each column of the panel, the inverted row of the given pivot that leads there, or 0.
    const uint32_t* given_at;
    uint32_t row_count;
    // The columns of the panel, and the number of columns before it.
    uint32_t columns, first_column;
};

// A row and the pivots in it.
struct alignas(16) CombinedRow {
    PanelRow bits, pivots;
};

struct PivotSearch {
    // The pivots by slot, not reduced by each other.
    PanelRow pivots[PANEL];
    uint32_t source[PANEL];
    PanelRow present;
    // The lanes of each warp whose rows are not zero.
    uint32_t candidates[WARPS];
    // The lanes of each warp whose rows are not promoted, in chunks of even and odd number.
    uint32_t unpromoted[2][WARPS];
    PanelRow promoted;
    CombinedRow steps[2];
};

// The lowest bit of a word that is not zero.
FN uint32_t lowest_bit(uint32_t word) { return 31 - leading_zeros(word & (0u - word)); }

// Adds the pivots of all slots of the row, from the lowest on.
FN void reduce_by(PanelRow& row, const PanelRow* pivots, const PanelRow& present) {
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        for (uint32_t left = present.w[i]; left != 0; left &= left - 1) {
            const uint32_t bit = lowest_bit(left);
            if (row.w[i] >> bit & 1) row.add(pivots[32 * i + bit]);
        }
    }
}

// Whether a row of a chunk is not promoted. `unpromoted` is that of the chunk's parity: it is read
// before the barrier of the next chunk, and written again after it.
FN bool has_unpromoted(uint32_t* unpromoted, bool is_unpromoted) {
    const uint32_t lanes = __ballot_sync(ALL_LANES, is_unpromoted);
    if (lane_index() == 0) unpromoted[warp_index()] = lanes;
    __syncthreads();
    uint32_t any = 0;
    UNROLL
    for (uint32_t warp = 0; warp < WARPS; warp++) any |= unpromoted[warp];
    return any != 0;
}

// Promotes rows of a chunk, one a thread, each of which is reduced by the pivots. The first row
// that is not zero is added to later rows that are 1 in its leading column, and so on.
FN void promote_rows(PivotSearch& search, PanelRow bits, uint32_t row, uint32_t first_column,
                     uint32_t* leading) {
    while (true) {
        const uint32_t left = __ballot_sync(ALL_LANES, !bits.is_zero());
        if (lane_index() == 0) search.candidates[warp_index()] = left;
        __syncthreads();
        uint32_t found = NONE;
        UNROLL
        for (uint32_t warp = WARPS; warp-- > 0;) {
            const uint32_t lanes = search.candidates[warp];
            if (lanes != 0) found = LANES * warp + lowest_bit(lanes);
        }
        if (found == NONE) break;
        if (threadIdx.x == found) {
            const uint32_t slot = bits.leading();
            search.promoted = search.pivots[slot] = bits;
            search.source[slot] = row | PROMOTED;
            search.present.w[slot / 32] |= 1u << slot % 32;
            leading[row] = first_column + slot + 1;
        }
        __syncthreads();
        const PanelRow pivot = search.promoted;
        const uint32_t slot = pivot.leading();
        uint32_t word = 0;
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) word = slot / 32 == i ? bits.w[i] : word;
        // The promoted row itself becomes zero.
        if (word >> slot % 32 & 1) bits.add(pivot);
    }
    // The next chunk writes `candidates`.
    __syncthreads();
}

// Gauss-Jordan elimination of the pivots, a slot a thread.
FN void combine_pivots(PivotSearch& search, const PanelInput& input, PanelPlan* plan) {
    const uint32_t thread = threadIdx.x, from = search.source[thread];
    const PanelRow slots = search.present;
    CombinedRow own = {PanelRow::zero(), PanelRow::unit(thread)};
    if (from != NONE) {
        own.bits = from & PROMOTED ? input.rows[from & ~PROMOTED] : input.given[from];
    }
    uint32_t parity = 0;
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        for (uint32_t left = slots.w[i]; left != 0; left &= left - 1, parity ^= 1) {
            const uint32_t bit = lowest_bit(left), slot = 32 * i + bit;
            if (thread == slot) {
                search.steps[parity] = own;
                plan->reduced[slot] = own.pivots;
            }
            __syncthreads();
            if (from != NONE && thread != slot && own.bits.w[i] >> bit & 1) {
                own.bits.add(search.steps[parity].bits);
                own.pivots.add(search.steps[parity].pivots);
            }
        }
    }
    plan->source[thread] = from;
    if (from != NONE) plan->separated[thread] = own.pivots;
    if (thread == 0) plan->present = slots;
}

// Finds the pivots of a panel: those that are given, and rows that are promoted: the first row that
// is not zero in the panel once it is reduced by all pivots before, and so on. Sets `plan`, and
// `leading` of promoted rows, which is zero for rows that are not pivots.
// 1. Rows are read in chunks of one a thread, until all slots have a pivot, without the first ones
//    that are promoted. Each thread reduces its row by the pivots in shared memory, without
//    barriers. Then rows are promoted, with two barriers each.
// 2. The pivots are combined, with one barrier each. Each thread keeps which pivots it has added.
NOINLINE void find_pivots(PivotSearch& search, const PanelInput& input, uint32_t* leading,
                          PanelPlan* plan) {
    const uint32_t thread = threadIdx.x;
    const uint32_t at = thread < input.columns ? ~input.given_at[thread] : NONE;
    search.source[thread] = at;
    if (at != NONE) search.pivots[thread] = input.given[at];
    const uint32_t given = __ballot_sync(ALL_LANES, at != NONE);
    if (lane_index() == 0) search.present.w[warp_index()] = given;
    uint32_t first = plan->first_row;
    __syncthreads();
    for (uint32_t base = first, parity = 0; base < input.row_count; base += THREADS) {
        const PanelRow slots = search.present;
        if (slots.count() == input.columns) break;
        const uint32_t row = base + thread;
        const bool is_unpromoted = row < input.row_count && leading[row] == 0;
        const bool has_work = has_unpromoted(search.unpromoted[parity], is_unpromoted);
        parity ^= 1;
        if (!has_work) {
            if (base == first) first += THREADS;
            continue;
        }
        PanelRow bits = PanelRow::zero();
        if (is_unpromoted) bits = input.rows[row];
        reduce_by(bits, search.pivots, slots);
        promote_rows(search, bits, row, input.first_column, leading);
    }
    if (thread == 0) plan->first_row = first;
    combine_pivots(search, input, plan);
}
