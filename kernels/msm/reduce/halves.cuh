// The first part of the reduction: bits of the bucket's number are summed over.
//
// Bucket b of a set is at row i and column j, b = i 2^lg_columns + j. The rows' sums R_i come from
// summing over the low bits of b, the columns' C_j over the high ones: two families of arrays, one
// array a set each, that get shorter by every launch. In memory a family is one array after the
// other, and the rows come first; before the first launch both are the buckets themselves.
#pragma once
#include <cstdint>
#include "../../carry.cuh"

// One launch's work. Elements 2^lg_rows and 2^lg_columns an array before, `row_bits` and
// `column_bits` fewer after.
struct Halves {
    uint32_t arrays;
    uint32_t lg_rows, row_bits, lg_columns, column_bits;
    uint32_t columns_at; // where the columns begin, in points

    FN uint32_t row_sums() const { return arrays << (lg_rows - row_bits); }
    FN uint32_t sums() const { return row_sums() + (arrays << (lg_columns - column_bits)); }
};

// Sum number `sum` is over the points first + k stride, 0 <= k < count.
struct Slice {
    uint32_t first, stride, count;
};
FN Slice slice_of(const Halves& work, uint32_t sum) {
    const uint32_t rows = work.row_sums();
    if (sum < rows) return {sum << work.row_bits, 1, 1u << work.row_bits};
    const uint32_t lg_left = work.lg_columns - work.column_bits, column = sum - rows;
    const uint32_t array = column >> lg_left, inside = column - (array << lg_left);
    return {work.columns_at + (array << work.lg_columns) + inside, 1u << lg_left,
            1u << work.column_bits};
}
