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
    // The slots of the rows that a warp has promoted, in their order; then zeros.
    uint32_t promoted[LANES], promoted_count;
    // Rows that one warp passes to the others: those that it has promoted, then zeros; or, while the
    // pivots are combined, those of its slots.
    PanelRow batch[LANES];
};

// Adds pivots until the row has no bit in their slots: from the lowest slot on, as pivots have no
// lower bits. Slots without a pivot have zeros. All threads read the same pivot at a time.
FN void reduce_by(PanelRow& row, const PanelRow* pivots) {
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
#pragma unroll 8
        for (uint32_t bit = 0; bit < 32; bit++) {
            const uint32_t mask = mask_of(row.w[i], bit);
            UNROLL
            for (uint32_t j = i; j < ROW_WORDS; j++)
                row.w[j] ^= pivots[32 * i + bit].w[j] & mask;
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

// All ones if the row has a 1 in a slot, else zero.
FN uint32_t mask_of_slot(const PanelRow& row, uint32_t slot) {
    // Each bit of the word's index halves the words.
    uint32_t words[ROW_WORDS];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) words[i] = row.w[i];
    UNROLL
    for (uint32_t n = ROW_WORDS / 2, bit = 32; n > 0; n /= 2, bit *= 2) {
        UNROLL
        for (uint32_t i = 0; i < n; i++) words[i] = slot & bit ? words[2 * i + 1] : words[2 * i];
    }
    return mask_of(words[0], slot % 32);
}

// Promotes the rows of a warp that are not zero, one after another, and adds each to those after
// it. The pivots are stored after the last one, so that all lanes take the same branch.
FN void promote_in_warp(PivotSearch& search, PanelRow& bits, uint32_t row, uint32_t first_column,
                        uint32_t* leading) {
    uint32_t own_slot = NONE, own_number = 0, count = 0;
    while (true) {
        const uint32_t lane_slot = bits.leading();
        const bool is_candidate = own_slot == NONE && !bits.is_zero();
        const uint32_t left = __ballot_sync(ALL_LANES, is_candidate);
        if (left == 0) break;
        const uint32_t first = lowest_bit(left), slot = broadcast(lane_slot, first);
        const PanelRow pivot = broadcast(bits, first);
        const bool is_first = lane_index() == first;
        own_slot = is_first ? slot : own_slot;
        own_number = is_first ? count : own_number;
        count++;
        bits.add_masked(pivot, own_slot == NONE ? mask_of_slot(bits, slot) : 0);
    }
    search.promoted[lane_index()] = 0;
    search.batch[lane_index()] = PanelRow::zero();
    __syncwarp();
    if (own_slot != NONE) {
        search.pivots[own_slot] = search.batch[own_number] = bits;
        search.source[own_slot] = row | PROMOTED;
        atomicOr(&search.present.w[own_slot / 32], 1u << own_slot % 32);
        search.promoted[own_number] = own_slot;
        leading[row] = first_column + own_slot + 1;
        bits = PanelRow::zero();
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
        for (uint32_t begin = 0, end = search.promoted_count; begin < end; begin += 8) {
            UNROLL
            for (uint32_t k = begin; k < begin + 8; k++)
                bits.add_masked(search.batch[k], mask_of_slot(bits, search.promoted[k]));
        }
    }
    // The next chunk writes `candidates`.
    __syncthreads();
}

// The words of a row, the first one last.
FN PanelRow rotated(const PanelRow& row) {
    PanelRow next;
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) next.w[i] = row.w[(i + 1) % ROW_WORDS];
    return next;
}

// Gauss-Jordan elimination of the pivots of the 32 slots of a word, by their warp: see
// combine_pivots. `own` begins with this word. Stores the sets of pivots that reduce promoted ones by
// lower ones.
FN void combine_in_warp(PanelRow& own, uint32_t word, bool is_promoted, PanelPlan* plan) {
    const uint32_t lane = lane_index();
    // The row once it is reduced by the pivots of lower slots.
    PanelRow lower = own;
    UNROLL
    for (uint32_t bit = 0; bit < 32; bit++) {
        const PanelRow pivot = broadcast(own, bit);
        const uint32_t mask = lane == bit ? 0 : mask_of(own.w[0], bit);
        UNROLL
        for (uint32_t i = 0; i < ROW_WORDS; i++) lower.w[i] = lane == bit ? own.w[i] : lower.w[i];
        own.add_masked(pivot, mask);
        own.w[0] |= mask & 1u << bit;
    }
    if (!is_promoted) return;
    lower.w[0] &= 0xffffffff >> (31 - lane);
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const bool is_lower = i == 0 || i >= ROW_WORDS - word;
        plan->reduced[32 * word + lane].w[(word + i) % ROW_WORDS] = is_lower ? lower.w[i] : 0;
    }
}

// Gauss-Jordan elimination of the pivots, a slot a thread, in place: once a slot has been
// eliminated, a row's bit there tells whether the slot's pivot is a part of the row. Each warp
// eliminates its 32 slots, then the rows of other warps are reduced by these. The words of all rows
// rotate, so that those slots are in the first one.
FN void combine_pivots(PivotSearch& search, const PanelInput& input, PanelPlan* plan) {
    const uint32_t thread = threadIdx.x, from = search.source[thread];
    const bool is_pivot = from != NONE, is_promoted = is_pivot && (from & PROMOTED);
    const PanelRow present = search.present;
    PanelRow own = PanelRow::zero();
    if (is_pivot) own = is_promoted ? input.rows[from & ~PROMOTED] : input.given[from];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) own.w[i] &= present.w[i];
#pragma unroll 1
    for (uint32_t word = 0; word < ROW_WORDS; word++) {
        if (warp_index() == word) {
            combine_in_warp(own, word, is_promoted, plan);
            search.batch[lane_index()] = own;
        }
        __syncthreads();
        if (warp_index() != word) {
            const uint32_t slots = own.w[0];
            own.w[0] = 0;
#pragma unroll 8
            for (uint32_t bit = 0; bit < 32; bit++)
                own.add_masked(search.batch[bit], mask_of(slots, bit));
        }
        __syncthreads();
        own = rotated(own);
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
    search.pivots[thread] = at != NONE ? input.given[at] : PanelRow::zero();
    const uint32_t given = __ballot_sync(ALL_LANES, at != NONE);
    if (lane_index() == 0) search.present.w[warp_index()] = given;
    uint32_t first = plan->first_row;
    __syncthreads();
    for (uint32_t base = first, parity = 0; base < input.row_count; base += THREADS) {
        if (search.present.count() == input.columns) break;
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
        reduce_by(bits, search.pivots);
        promote_rows(search, bits, row, input.first_column, leading);
    }
    if (thread == 0) plan->first_row = first;
    combine_pivots(search, input, plan);
}
