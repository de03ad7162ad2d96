// The second part of the bucket reduction: from the sums of rows and columns to one point.
//
// Let T be the sum of all buckets, R_t and C_t the sums of the rows and columns whose index has bit
// t. A set's sum of (b + 1) P_b is T + sum of 2^t C_t + sum of 2^(t + lg_columns) R_t. That is
// lg_buckets + 1 terms, lg_buckets rounded up: T first, then the C_t, then the R_t. Terms 0 and 1
// have factor 1, each later one twice the factor of the one before. For buckets of odd digits, the
// sum of (2b + 1) P_b, all factors except T's are doubled.
#pragma once
#include "team_sum.cuh"

// The elements that a part of a term sums.
struct TermPart {
    uint32_t set_at, elements; // rows or columns of the set
    uint32_t first, count;       // among the elements with the bit; count 0: the part is empty
    uint32_t bit;                // NO_BIT: all elements
};
constexpr uint32_t NO_BIT = 31;

// The k-th element whose index has that bit.
FN uint32_t with_bit(uint32_t k, uint32_t bit) {
    if (bit == NO_BIT) return k;
    const uint32_t below = k & ((1u << bit) - 1);
    return (k - below) << 1 | 1u << bit | below;
}

// log2 rounded up; count is at least 1.
FN uint32_t lg_ceil(uint32_t count) { return count > 1 ? 32 - leading_zeros(count - 1) : 0; }

// The input sums, set after set: the rows of each, then from columns_at on the columns of each.
// A term is 2^lg_parts partial sums. The number of elements is rounded up to a power of two;
// missing ones are infinity.
struct BitTerms {
    uint32_t set_count, rows, columns, columns_at, lg_parts;

    FN uint32_t of_set() const { return lg_ceil(rows) + lg_ceil(columns) + 1; }
    FN uint32_t sums() const { return set_count * of_set() << lg_parts; }
    FN TermPart at(uint32_t sum) const {
        const uint32_t part = sum & ((1u << lg_parts) - 1), term = (sum >> lg_parts) % of_set();
        const uint32_t set = (sum >> lg_parts) / of_set(), lg_columns = lg_ceil(columns);
        const bool is_row = term > lg_columns;
        const uint32_t set_at = is_row ? set * rows : columns_at + set * columns;
        const uint32_t lg = is_row ? lg_ceil(rows) : lg_columns;
        const uint32_t counting = 1u << (term == 0 ? lg : lg - 1);
        const uint32_t share = counting >> lg_parts > 0 ? counting >> lg_parts : 1;
        const uint32_t bit = term == 0 ? NO_BIT : is_row ? term - 1 - lg_columns : term - 1;
        return {set_at, is_row ? rows : columns, part * share,
                part * share < counting ? share : 0, bit};
    }
};

// How often a point is doubled before it is added: points come in periods, and each has 2^width
// times the factor of the one before, or 2^(width - 1) times if the one before is narrow.
struct PeriodicDoublings {
    uint32_t period, width;
    uint64_t narrow;

    FN uint32_t doublings(uint32_t index) const {
        const uint32_t step = index % period;
        return step * width - uint32_t(__popcll(narrow & ((uint64_t(1) << step) - 1)));
    }
};
// 2^doublings a; the warp continues until its last lane is done. Doubles by adding a point to
// itself: one more round of products than necessary, but no more code.
template <class F> FN F doubled(F a, uint32_t doublings) {
#pragma unroll 1
    for (; __any_sync(ALL_LANES, doublings > 0); doublings -= doublings > 0)
        a = split_add(a, doublings > 0 ? a : zero<F>());
    return a;
}
