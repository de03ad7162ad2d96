// Adds the pivots of a panel to the rows, in the panel's strip and those after it.
//
// The strips are those from the panel on. For a panel before a block of columns, they are those of
// the block: there, the coefficients are known, and no block of threads looks for them.
//
// gf2_pivots: the first blocks copy the pivots, one in each strip, in the forms of the updates. The
// other blocks find which pivots are to be added to each row, a row a thread: those whose sum has
// the row's bits in the panel, from the sums of all subsets of four `separated` sets in shared
// memory; for a promoted row, those that reduce it.
// Launch: blocks of 256: one for each strip, and one for each 256 rows.
//
// gf2_update: rows ^= coefficients x pivots, by binary matrix instructions. A warp keeps the pivots
// of a strip in registers, and reads 16 rows at a time. Its lanes count in which pivots a row takes
// part for each column; the parity is the bit to add. The columns of an instruction are chosen so
// that a lane's counts belong to one word of a row: half h, instruction t, column c of eight is
// column 128 h + 32 (c / 2) + t + 16 (c % 2) of the strip.
// gf2_update_tables: the same through tables of the sums of four pivots, a row a thread, on devices
// without such instructions.
// Both update the next panel's strip first. The last of its blocks then finds the pivots of that
// panel, while others update the other strips. Without a next panel, `next_columns` is 0.
// Launch: blocks of 256, blocks_of_rows for each strip. All kernels here support programmatic
// dependent launch.
#include "find_pivots.cuh"

constexpr uint32_t GROUPS = PANEL / 4, SUBSETS = 16;
constexpr uint32_t TILE_ROWS = 16, TILES = 16, HALVES = 2;

// The part of the second factor of an instruction that a lane has.
struct alignas(8) PivotWords {
    uint32_t w[2];
};
// The second factors of all instructions of a strip, by lane.
struct StripFactors {
    PivotWords words[HALVES][TILES][LANES];
};

// Fills tables of the sums of four rows each.
FN void fill_tables(PanelRow* tables, const PanelRow* pivots) {
    for (uint32_t at = threadIdx.x; at < GROUPS * SUBSETS; at += THREADS) {
        const uint32_t group = at / SUBSETS, subset = at % SUBSETS;
        PanelRow sum = PanelRow::zero();
        UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            if (subset >> i & 1) sum.add(pivots[4 * group + i]);
        }
        tables[at] = sum;
    }
}

// The sum of the pivots of a set.
FN PanelRow sum_of(const PanelRow* tables, const PanelRow& set) {
    PanelRow sum = PanelRow::zero();
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        UNROLL
        for (uint32_t j = 0; j < 8; j++) {
            sum.add(tables[(8 * i + j) * SUBSETS + (set.w[i] >> (4 * j) & 15)]);
        }
    }
    return sum;
}

// The pivots that are added to a row. `tables`: sums of `separated` sets. `column_end`: the row's
// leading column plus one if it is promoted, else 0. `all`: whether rows that were promoted before
// this panel are reduced, too, and rows that are promoted in it are reduced by all others.
FN PanelRow added_pivots(const PanelRow* tables, const PanelPlan& plan, const PanelRow& bits,
                         uint32_t column_end, uint32_t first_column, uint32_t all) {
    if (column_end > first_column) {
        const uint32_t slot = column_end - 1 - first_column;
        PanelRow set = all ? plan.separated[slot] : plan.reduced[slot];
        // The row is there already.
        set.add(PanelRow::unit(slot));
        return set;
    }
    if (column_end != 0 && !all) return PanelRow::zero();
    PanelRow slots = bits;
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) slots.w[i] &= plan.present.w[i];
    return sum_of(tables, slots);
}

// Stores the bits of 32 slots a warp by column: bit b of word i of all slots.
FN void store_factors(StripFactors& factors, const PanelRow& pivot) {
    const uint32_t lane = lane_index(), slots = warp_index();
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        uint32_t own = 0;
        for (uint32_t bit = 0; bit < 32; bit++) {
            const uint32_t column = __ballot_sync(ALL_LANES, int(pivot.w[i] >> bit & 1));
            if (bit == lane) own = column;
        }
        const uint32_t half = i / 4, in_tile = 2 * (i % 4) + lane / 16;
        factors.words[half][lane % 16][4 * in_tile + slots % 4].w[slots / 4] = own;
    }
}

// `given` and `rows` begin at the first strip.
KERNEL(256, 2)
gf2_pivots(const PanelRow* given, const PanelRow* rows, const PanelPlan* plan,
           const uint32_t* leading, uint32_t given_count, uint32_t row_count,
           uint32_t first_column, uint32_t strips, uint32_t all, PanelRow* coefficients,
           PanelRow* pivots, StripFactors* factors) {
    SHARED(PanelRow, tables, GROUPS* SUBSETS);
    await_predecessor();
    const uint32_t slot = threadIdx.x, strip = blockIdx.x;
    if (strip < strips) {
        const uint32_t from = plan->source[slot];
        rows += size_t(strip) * row_count;
        given += size_t(strip) * given_count;
        PanelRow bits = PanelRow::zero();
        if (from != NONE) bits = from & PROMOTED ? rows[from & ~PROMOTED] : given[from];
        pivots[size_t(strip) * PANEL + slot] = bits;
        store_factors(factors[strip], bits);
        return;
    }
    fill_tables(tables, plan->separated);
    __syncthreads();
    const uint32_t row = (strip - strips) * THREADS + slot;
    if (row >= row_count) return;
    coefficients[row] =
        added_pivots(tables, *plan, rows[row], leading[row], first_column, all);
}
EXPORT_KERNEL(gf2_pivots);

// What an update needs of the next panel, which is there if it has columns.
struct NextPanel {
    const PanelRow* given;
    const uint32_t* given_at;
    uint32_t *leading, given_count, columns, first_column;
    PanelPlan* plan;
};

// Finds the pivots of the next panel if this is the last of the `blocks` that update its strip.
// `rows` is that strip.
FN void find_next_pivots(PivotSearch& search, const NextPanel& next, const PanelRow* rows,
                         uint32_t row_count, uint32_t blocks) {
    SHARED(uint32_t, is_last, 1);
    // The block's rows are seen before it is counted.
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last[0] = atomicAdd(&next.plan->updated, 1) == blocks - 1;
        if (is_last[0]) next.plan->updated = 0;
    }
    __syncthreads();
    if (!is_last[0]) return;
    __threadfence();
    const PanelInput input = {rows,      next.given + next.given_count, next.given_at,
                              row_count, next.columns,                  next.first_column};
    find_pivots(search, input, next.leading, next.plan);
}

// The parities of two counts below 1024, at the bits `shift`, up to 15, and `shift` + 16.
FN uint32_t parities(uint32_t low, uint32_t high, uint32_t shift) {
    return (low + (high << 16)) << shift & 0x10001u << shift;
}

// A lane's words of the rows `at` + group and 8 rows below, and which pivots are added to them.
struct TileWords {
    // A word of each half: of the upper row and of the lower one, then of the other half.
    uint32_t set[2 * HALVES], bits[2 * HALVES];

    FN void load(const PanelRow* rows, const PanelRow* coefficients, uint32_t row_count,
                 uint32_t at) {
        const uint32_t upper = at + lane_index() / 4, lower = upper + 8, word = lane_index() % 4;
        *this = {};
        UNROLL
        for (uint32_t half = 0; half < HALVES; half++) {
            if (upper < row_count) {
                set[2 * half] = coefficients[upper].w[4 * half + word];
                bits[2 * half] = rows[upper].w[4 * half + word];
            }
            if (lower < row_count) {
                set[2 * half + 1] = coefficients[lower].w[4 * half + word];
                bits[2 * half + 1] = rows[lower].w[4 * half + word];
            }
        }
    }
    FN void store(PanelRow* rows, uint32_t row_count, uint32_t at) const {
        const uint32_t upper = at + lane_index() / 4, lower = upper + 8, word = lane_index() % 4;
        UNROLL
        for (uint32_t half = 0; half < HALVES; half++) {
            if (upper < row_count) rows[upper].w[4 * half + word] = bits[2 * half];
            if (lower < row_count) rows[lower].w[4 * half + word] = bits[2 * half + 1];
        }
    }
};

// Loads the words of the next tile before it computes those of a tile.
FN void update_by_instructions(PanelRow* rows, const PanelRow* coefficients,
                               const StripFactors& factors, uint32_t row_count, uint32_t first,
                               uint32_t step) {
    PivotWords pivots[HALVES][TILES];
    UNROLL
    for (uint32_t half = 0; half < HALVES; half++) {
        UNROLL
        for (uint32_t tile = 0; tile < TILES; tile++) {
            pivots[half][tile] = factors.words[half][tile][lane_index()];
        }
    }
    TileWords next;
    next.load(rows, coefficients, row_count, first);
    for (uint32_t at = first; at < row_count; at += step) {
        TileWords own = next;
        next.load(rows, coefficients, row_count, at + step);
        const uint32_t any = own.set[0] | own.set[1] | own.set[2] | own.set[3];
        if (!__any_sync(ALL_LANES, int(any))) continue;
        UNROLL
        for (uint32_t half = 0; half < HALVES; half++) {
            UNROLL
            for (uint32_t tile = 0; tile < TILES; tile++) {
                uint32_t counts[4] = {};
                binary_mma(counts, own.set, pivots[half][tile].w);
                own.bits[2 * half] ^= parities(counts[0], counts[1], tile);
                own.bits[2 * half + 1] ^= parities(counts[2], counts[3], tile);
            }
        }
        own.store(rows, row_count, at);
    }
}

// The strip of a block: the first one is updated last.
FN uint32_t strip_of(uint32_t blocks_of_rows) {
    const uint32_t strip = blockIdx.x / blocks_of_rows + 1;
    return strip == gridDim.x / blocks_of_rows ? 0 : strip;
}

KERNEL(256, 2)
gf2_update(PanelRow* rows, const PanelRow* coefficients, const StripFactors* factors,
           uint32_t row_count, uint32_t blocks_of_rows, const PanelRow* given,
           uint32_t given_count, const uint32_t* next_given_at, uint32_t* leading,
           uint32_t next_columns, uint32_t next_first, PanelPlan* next) {
    SHARED(PivotSearch, search, 1);
    await_predecessor();
    const uint32_t strip = strip_of(blocks_of_rows), block = blockIdx.x % blocks_of_rows;
    rows += size_t(strip) * row_count;
    const uint32_t first = TILE_ROWS * (WARPS * block + warp_index());
    update_by_instructions(rows, coefficients, factors[strip], row_count, first,
                           TILE_ROWS * WARPS * blocks_of_rows);
    if (strip != 1 || next_columns == 0) return;
    const NextPanel panel = {given,        next_given_at, leading, given_count,
                             next_columns, next_first,    next};
    find_next_pivots(search[0], panel, rows, row_count, blocks_of_rows);
}
EXPORT_KERNEL(gf2_update);

KERNEL(256, 2)
gf2_update_tables(PanelRow* rows, const PanelRow* coefficients, const PanelRow* all_pivots,
                  uint32_t row_count, uint32_t blocks_of_rows, const PanelRow* given,
                  uint32_t given_count, const uint32_t* next_given_at, uint32_t* leading,
                  uint32_t next_columns, uint32_t next_first, PanelPlan* next) {
    // The search follows the update.
    DYNAMIC_SHARED(PanelRow, tables);
    PanelRow* const pivots = tables + GROUPS * SUBSETS;
    await_predecessor();
    const uint32_t strip = strip_of(blocks_of_rows), block = blockIdx.x % blocks_of_rows;
    rows += size_t(strip) * row_count;
    pivots[threadIdx.x] = all_pivots[size_t(strip) * PANEL + threadIdx.x];
    __syncthreads();
    fill_tables(tables, pivots);
    __syncthreads();
    const uint32_t step = THREADS * blocks_of_rows;
    for (uint32_t row = block * THREADS + threadIdx.x; row < row_count; row += step) {
        const PanelRow set = coefficients[row];
        if (set.is_zero()) continue;
        PanelRow bits = rows[row];
        bits.add(sum_of(tables, set));
        rows[row] = bits;
    }
    if (strip != 1 || next_columns == 0) return;
    const NextPanel panel = {given,        next_given_at, leading, given_count,
                             next_columns, next_first,    next};
    auto& search = *reinterpret_cast<PivotSearch*>(tables);
    find_next_pivots(search, panel, rows, row_count, blocks_of_rows);
}
EXPORT_KERNEL(gf2_update_tables);
