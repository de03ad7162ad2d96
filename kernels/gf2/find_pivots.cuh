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

struct PivotSearch {
    // The pivots by slot, not reduced by each other.
    PanelRow pivots[PANEL];
    uint32_t source[PANEL];
    PanelRow present;
    // The lanes of each warp whose rows are not zero.
    uint32_t candidates[WARPS];
    // The lanes of each warp whose rows are not promoted, in chunks of even and odd number.
    uint32_t unpromoted[2][WARPS];
    // The slots of the rows that a warp has promoted, in their order.
    uint32_t promoted[LANES], promoted_count;
    // The pivots of a word's slots, while the pivots are combined.
    PanelRow combined[LANES];
};

// The lowest bit of a word that is not zero.
FN uint32_t lowest_bit(uint32_t word) { return 31 - leading_zeros(word & (0u - word)); }

// Adds pivots until the row has no bit in their slots: from the lowest slot on, as pivots have no
// lower bits.
FN void reduce_by(PanelRow& row, const PanelRow* pivots, const PanelRow& present) {
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        uint32_t left = row.w[i] & present.w[i];
        while (left != 0) {
            row.add(pivots[32 * i + lowest_bit(left)]);
            left = row.w[i] & present.w[i];
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

// Whether the row has a 1 in a slot.
FN bool has_slot(const PanelRow& row, uint32_t slot) {
    uint32_t word = 0;
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) word = slot / 32 == i ? row.w[i] : word;
    return word >> slot % 32 & 1;
}

// Promotes the rows of a warp that are not zero, one after another, and adds each to the others.
FN void promote_in_warp(PivotSearch& search, PanelRow& bits, uint32_t row, uint32_t first_column,
                        uint32_t* leading) {
    uint32_t count = 0;
    while (true) {
        const uint32_t left = __ballot_sync(ALL_LANES, !bits.is_zero());
        if (left == 0) break;
        const uint32_t first = lowest_bit(left);
        const PanelRow pivot = broadcast(bits, first);
        const uint32_t slot = pivot.leading();
        if (lane_index() == first) {
            search.pivots[slot] = pivot;
            search.source[slot] = row | PROMOTED;
            atomicOr(&search.present.w[slot / 32], 1u << slot % 32);
            search.promoted[count] = slot;
            leading[row] = first_column + slot + 1;
        }
        count++;
        // The promoted row itself becomes zero.
        if (has_slot(bits, slot)) bits.add(pivot);
    }
    if (lane_index() == 0) search.promoted_count = count;
}

// Promotes rows of a chunk, one a thread, each of which is reduced by the pivots: a row after
// another that is not zero once it is reduced by those before. The first warp that has such rows
// promotes all of its own, then the rows of later warps are reduced by these.
FN void promote_rows(PivotSearch& search, PanelRow bits, uint32_t row, uint32_t first_column,
                     uint32_t* leading) {
    while (true) {
        const uint32_t left = __ballot_sync(ALL_LANES, !bits.is_zero());
        if (lane_index() == 0) search.candidates[warp_index()] = left;
        __syncthreads();
        uint32_t found = NONE;
        UNROLL
        for (uint32_t warp = WARPS; warp-- > 0;) {
            if (search.candidates[warp] != 0) found = warp;
        }
        if (found == NONE) break;
        if (warp_index() == found) promote_in_warp(search, bits, row, first_column, leading);
        __syncthreads();
        if (warp_index() <= found) continue;
        // A pivot has no bit in the slots of those before it.
        for (uint32_t k = 0; k < search.promoted_count; k++) {
            const uint32_t slot = search.promoted[k];
            if (has_slot(bits, slot)) bits.add(search.pivots[slot]);
        }
    }
    // The next chunk writes `candidates`.
    __syncthreads();
}

// Gauss-Jordan elimination of the pivots of a word's slots, by the warp of these slots: see
// combine_pivots. Stores what promoted pivots are once they are reduced by lower ones.
FN void combine_in_warp(PanelRow& own, uint32_t word, uint32_t slots, bool is_promoted,
                        PanelPlan* plan) {
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        if (i != word) continue;
        for (uint32_t left = slots; left != 0; left &= left - 1) {
            const uint32_t bit = lowest_bit(left);
            const PanelRow pivot = broadcast(own, bit);
            if (lane_index() == bit) {
                if (!is_promoted) continue;
                PanelRow lower = own;
                UNROLL
                for (uint32_t j = i + 1; j < ROW_WORDS; j++) lower.w[j] = 0;
                lower.w[i] &= 0xffffffff >> (31 - bit);
                plan->reduced[32 * i + bit] = lower;
            } else if (own.w[i] >> bit & 1) {
                own.add(pivot);
                own.w[i] |= 1u << bit;
            }
        }
    }
}

// Gauss-Jordan elimination of the pivots, a slot a thread, in place: once a slot has been
// eliminated, a row's bit there tells whether the slot's pivot is a part of the row. Each warp
// eliminates its 32 slots, then the rows of other warps are reduced by these.
FN void combine_pivots(PivotSearch& search, const PanelInput& input, PanelPlan* plan) {
    const uint32_t thread = threadIdx.x, from = search.source[thread];
    const bool is_pivot = from != NONE, is_promoted = is_pivot && (from & PROMOTED);
    const PanelRow present = search.present;
    PanelRow own = PanelRow::zero();
    if (is_pivot) own = is_promoted ? input.rows[from & ~PROMOTED] : input.given[from];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) own.w[i] &= present.w[i];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const uint32_t slots = present.w[i];
        if (slots == 0) continue;
        if (warp_index() == i) {
            combine_in_warp(own, i, slots, is_promoted, plan);
            search.combined[lane_index()] = own;
        }
        __syncthreads();
        if (warp_index() != i) {
            uint32_t left = own.w[i];
            own.w[i] = 0;
            for (; left != 0; left &= left - 1) own.add(search.combined[lowest_bit(left)]);
        }
        __syncthreads();
    }
    plan->source[thread] = from;
    if (is_pivot) plan->separated[thread] = own;
    if (thread == 0) plan->present = present;
}

// Finds the pivots of a panel: those that are given, and rows that are promoted: the first row that
// is not zero in the panel once it is reduced by all pivots before, and so on. Sets `plan`, and
// `leading` of promoted rows, which is zero for rows that are not pivots.
// 1. Rows are read in chunks of one a thread, until all slots have a pivot, without the first ones
//    that are promoted. Each thread reduces its row by the pivots in shared memory. Then rows are
//    promoted, with two barriers for each warp.
// 2. The pivots are combined, with two barriers for each warp.
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
