// Between packed rows and strips of 256 columns, the leading columns of pivots, and copies.
//
// Row numbers that a kernel stores are inverted, so that 0 stands for no row, and the largest
// number for the first row.
//
// gf2_to_strips: a thread copies the words of a row in a strip. `words`: 32-bit words of a packed
// row. `unused` gets the first row with a bit after its last column.
// gf2_from_strips: the reverse. Row r of `packed` is row order[r], or zero if that is no row; row r
// if `order` is null.
// Launch: blocks of 256, one thread for each row and strip.
//
// gf2_leading_columns: a thread finds the leading column of a row. `row_at` gets the first row that
// leads in each column. Launch: blocks of 256, one thread a row.
//
// gf2_promoted_columns: `row_at` gets the promoted row that leads in each column. `leading`: for
// each row, its leading column plus one, or 0. Launch: blocks of 256, one thread a row.
//
// gf2_pivot_order: `order` gets the rows of `row_at`, by column. Launch: a block of 256.
#include "panel.cuh"

FN uint64_t thread_of_grid() { return uint64_t(blockIdx.x) * 256 + threadIdx.x; }

KERNEL(256, 1)
gf2_to_strips(const uint32_t* packed, uint32_t row_count, uint32_t columns, uint32_t words,
              uint32_t strips, PanelRow* rows, uint32_t* unused) {
    const uint64_t at = thread_of_grid();
    if (at >= uint64_t(row_count) * strips) return;
    const auto row = uint32_t(at / strips), strip = uint32_t(at % strips);
    PanelRow bits = PanelRow::zero();
    uint32_t after_last = 0;
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const uint32_t word = ROW_WORDS * strip + i;
        if (word >= words) continue;
        bits.w[i] = packed[size_t(row) * words + word];
        const uint32_t used = columns > 32 * word ? columns - 32 * word : 0;
        if (used < 32) after_last |= bits.w[i] >> used;
    }
    if (after_last != 0) atomicMax(unused, ~row);
    rows[size_t(strip) * row_count + row] = bits;
}
EXPORT_KERNEL(gf2_to_strips);

KERNEL(256, 1)
gf2_from_strips(const PanelRow* rows, uint32_t row_count, const uint32_t* order, uint32_t words,
                uint32_t strips, uint32_t* packed) {
    const uint64_t at = thread_of_grid();
    if (at >= uint64_t(row_count) * strips) return;
    const auto row = uint32_t(at / strips), strip = uint32_t(at % strips);
    const uint32_t from = order ? ~order[row] : row;
    PanelRow bits = PanelRow::zero();
    if (from != NONE) bits = rows[size_t(strip) * row_count + from];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const uint32_t word = ROW_WORDS * strip + i;
        if (word < words) packed[size_t(row) * words + word] = bits.w[i];
    }
}
EXPORT_KERNEL(gf2_from_strips);

KERNEL(256, 1)
gf2_leading_columns(const PanelRow* rows, uint32_t row_count, uint32_t strips, uint32_t* row_at) {
    const auto row = uint32_t(thread_of_grid());
    if (row >= row_count) return;
    for (uint32_t strip = 0; strip < strips; strip++) {
        const PanelRow bits = rows[size_t(strip) * row_count + row];
        if (bits.is_zero()) continue;
        atomicMax(&row_at[strip * PANEL + bits.leading()], ~row);
        break;
    }
}
EXPORT_KERNEL(gf2_leading_columns);

KERNEL(256, 1)
gf2_promoted_columns(const uint32_t* leading, uint32_t row_count, uint32_t* row_at) {
    const auto row = uint32_t(thread_of_grid());
    if (row >= row_count || leading[row] == 0) return;
    row_at[leading[row] - 1] = ~row;
}
EXPORT_KERNEL(gf2_promoted_columns);

KERNEL(256, 1)
gf2_pivot_order(const uint32_t* row_at, uint32_t columns, uint32_t* order) {
    SHARED(uint32_t, found, PANEL / LANES);
    uint32_t count = 0;
    for (uint32_t first = 0; first < columns; first += PANEL) {
        const uint32_t column = first + threadIdx.x;
        const uint32_t row = column < columns ? row_at[column] : 0;
        const uint32_t lanes = __ballot_sync(ALL_LANES, int(row != 0));
        if (lane_index() == 0) found[warp_index()] = lanes;
        __syncthreads();
        uint32_t at = count + uint32_t(__popc(lanes & ((1u << lane_index()) - 1)));
        UNROLL
        for (uint32_t warp = 0; warp < PANEL / LANES; warp++) {
            const auto of_warp = uint32_t(__popc(found[warp]));
            if (warp < warp_index()) at += of_warp;
            count += of_warp;
        }
        if (row != 0) order[at] = row;
        __syncthreads();
    }
}
EXPORT_KERNEL(gf2_pivot_order);
