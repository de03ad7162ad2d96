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
struct BucketMatrix {
    uint32_t set_count, buckets, lg_columns, row_parts, column_parts;

    // Per set.
    FN uint32_t rows() const { return ((buckets - 1) >> lg_columns) + 1; }
    FN uint32_t columns() const { return 1u << lg_columns; }
    FN uint32_t row_slices() const { return set_count * rows() * row_parts; }
    FN uint32_t slices() const { return row_slices() + set_count * column_parts * columns(); }
    // Every row and column as one slice: the final sums.
    FN BucketMatrix unsplit() const { return {set_count, buckets, lg_columns, 1, 1}; }
};

// The points first + k stride, 0 <= k < count, without those beyond the end of the set.
struct Slice {
    uint32_t first, stride, count;
};
// Slice `s` of the buckets: adjacent elements of a row, or every column_parts-th of a column.
FN Slice slice_of(const BucketMatrix& matrix, uint32_t s) {
    const uint32_t columns = matrix.columns(), buckets = matrix.buckets;
    if (s < matrix.row_slices()) {
        const uint32_t row = s / matrix.row_parts, part = s % matrix.row_parts;
        const uint32_t length = (columns - 1) / matrix.row_parts + 1;
        const uint32_t set = row / matrix.rows(), inside = row % matrix.rows() * columns;
        const uint32_t begin = inside + part * length, full = begin + length;
        const uint32_t row_end = inside + columns < buckets ? inside + columns : buckets;
        const uint32_t end = full < row_end ? full : row_end;
        return {set * buckets + begin, 1, begin < end ? end - begin : 0};
    }
    const uint32_t at = s - matrix.row_slices(), stride = matrix.column_parts * columns;
    const uint32_t set = at / stride, inside = at % stride;
    const uint32_t count = inside < buckets ? (buckets - 1 - inside) / stride + 1 : 0;
    return {set * buckets + inside, stride, count};
}
// The slices of row or column `s`.
FN Slice slices_of(const BucketMatrix& matrix, uint32_t s) {
    const uint32_t rows = matrix.set_count * matrix.rows();
    if (s < rows) return {s * matrix.row_parts, 1, matrix.row_parts};
    const uint32_t set = (s - rows) >> matrix.lg_columns, column = (s - rows) % matrix.columns();
    return {matrix.row_slices() + set * matrix.column_parts * matrix.columns() + column,
            matrix.columns(), matrix.column_parts};
}
