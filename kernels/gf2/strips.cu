// Between packed rows and strips of 256 columns, and the leading columns of pivots.
//
// gf2_to_strips, gf2_from_strips: a thread copies the words of a row in a strip. `words`: 32-bit
// words of a packed row. Launch: blocks of 256, one thread for each row and strip.
//
// gf2_leading_columns: a thread finds the leading column of a pivot, and stores the pivot's row
// plus one for it; pivots lead in distinct columns. Launch: blocks of 256, one thread a pivot.
#include "panel.cuh"

KERNEL(256, 1)
gf2_to_strips(const uint32_t* packed, uint32_t row_count, uint32_t words, uint32_t strips,
              PanelRow* rows) {
    const uint64_t at = uint64_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= uint64_t(row_count) * strips) return;
    const auto row = uint32_t(at / strips), strip = uint32_t(at % strips);
    PanelRow bits = PanelRow::zero();
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const uint32_t word = ROW_WORDS * strip + i;
        if (word < words) bits.w[i] = packed[size_t(row) * words + word];
    }
    rows[size_t(strip) * row_count + row] = bits;
}
EXPORT_KERNEL(gf2_to_strips);

KERNEL(256, 1)
gf2_from_strips(const PanelRow* rows, uint32_t row_count, uint32_t words, uint32_t strips,
                uint32_t* packed) {
    const uint64_t at = uint64_t(blockIdx.x) * 256 + threadIdx.x;
    if (at >= uint64_t(row_count) * strips) return;
    const auto row = uint32_t(at / strips), strip = uint32_t(at % strips);
    const PanelRow bits = rows[size_t(strip) * row_count + row];
    UNROLL
    for (uint32_t i = 0; i < ROW_WORDS; i++) {
        const uint32_t word = ROW_WORDS * strip + i;
        if (word < words) packed[size_t(row) * words + word] = bits.w[i];
    }
}
EXPORT_KERNEL(gf2_from_strips);

KERNEL(256, 1)
gf2_leading_columns(const PanelRow* given, uint32_t given_count, uint32_t strips,
                    uint32_t* given_at) {
    const uint32_t row = blockIdx.x * 256 + threadIdx.x;
    if (row >= given_count) return;
    for (uint32_t strip = 0; strip < strips; strip++) {
        const PanelRow bits = given[size_t(strip) * given_count + row];
        if (bits.is_zero()) continue;
        given_at[strip * PANEL + bits.leading()] = row + 1;
        break;
    }
}
EXPORT_KERNEL(gf2_leading_columns);
