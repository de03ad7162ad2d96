// The first part of the bucket reduction: sums of rows and of columns.
//
// Bucket b of a set is at row i and column j, b = i 2^lg_columns + j; the last row may be short.
// Row sums R_i sum over j, column sums C_j over i. For many buckets a launch sums slices, row_parts
// per row and column_parts per column, and the next launch sums the slices. Memory holds the rows
// first, set after set, then the columns.
#pragma once
#include <cstdint>
#include "../../carry.cuh"

// Sets of `buckets` >= 1 buckets, and how they are split.
struct Halves {
    uint32_t arrays, buckets, lg_columns, row_parts, column_parts;

    // Per set.
    FN uint32_t rows() const { return ((buckets - 1) >> lg_columns) + 1; }
    FN uint32_t columns() const { return 1u << lg_columns; }
    FN uint32_t row_slices() const { return arrays * rows() * row_parts; }
    FN uint32_t slices() const { return row_slices() + arrays * column_parts * columns(); }
    // Every row and column as one slice: the final sums.
    FN Halves whole() const { return {arrays, buckets, lg_columns, 1, 1}; }
};

// The points first + k stride, 0 <= k < count, without those beyond the end of the set.
struct Slice {
    uint32_t first, stride, count;
};
// Slice `s` of the buckets: adjacent elements of a row, or every column_parts-th of a column.
FN Slice slice_of(const Halves& work, uint32_t s) {
    const uint32_t columns = work.columns(), buckets = work.buckets;
    if (s < work.row_slices()) {
        const uint32_t row = s / work.row_parts, part = s % work.row_parts;
        const uint32_t length = (columns - 1) / work.row_parts + 1;
        const uint32_t array = row / work.rows(), inside = row % work.rows() * columns;
        const uint32_t begin = inside + part * length, full = begin + length;
        const uint32_t row_end = inside + columns < buckets ? inside + columns : buckets;
        const uint32_t end = full < row_end ? full : row_end;
        return {array * buckets + begin, 1, begin < end ? end - begin : 0};
    }
    const uint32_t at = s - work.row_slices(), stride = work.column_parts * columns;
    const uint32_t array = at / stride, inside = at % stride;
    const uint32_t count = inside < buckets ? (buckets - 1 - inside) / stride + 1 : 0;
    return {array * buckets + inside, stride, count};
}
// The slices of row or column `s`.
FN Slice slices_of(const Halves& work, uint32_t s) {
    const uint32_t rows = work.arrays * work.rows();
    if (s < rows) return {s * work.row_parts, 1, work.row_parts};
    const uint32_t array = (s - rows) >> work.lg_columns, column = (s - rows) % work.columns();
    return {work.row_slices() + array * work.column_parts * work.columns() + column,
            work.columns(), work.column_parts};
}
