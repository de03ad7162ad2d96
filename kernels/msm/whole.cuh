// Where references are few: teams of lanes sum whole buckets, and nothing is planned. How many
// lanes a bucket gets is read off its size.
//
// A bucket of `large` references or more is cut into pieces, a block each, of 32 `each`. Where they
// are summed needs no list: cell c is references c cell to c cell + cell - 1, `cell` no more than
// `large` and than half a piece. So a large bucket of s references has the last ones of
// floor(s / cell) cells or more, and no more pieces than that. The first of those cells is its
// first piece's, the next one its second's. Which bucket has a cell's last reference is found by
// bisection.
#pragma once
#include "joined.cuh"

struct Whole {
    const uint32_t *references, *starts; // as in Buckets
    uint32_t buckets;
    uint32_t large, cell, each;

    FN uint32_t size(uint32_t b) const { return starts[b + 1] - starts[b]; }
    FN bool is_large(uint32_t b) const { return size(b) >= large; }
    // References of a piece, and pieces of a large bucket.
    FN uint32_t length() const { return SUM_GROUPS * each; }
    FN uint32_t pieces(uint32_t b) const { return (size(b) + length() - 1) / length(); }
};
// Of a cell: a large bucket whose first piece is here, and which has more; or no pieces.
struct alignas(8) Mark {
    uint32_t bucket, pieces;
};

// The bucket of reference `at`, which is one's.
FN uint32_t bucket_of(const Whole& all, uint32_t at) {
    uint32_t low = 0, high = all.buckets; // starts[low] <= at < starts[high]
#pragma unroll 1
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (all.starts[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

// What a team sums: references begin to begin + count - 1 of bucket b. Nothing of none, where b is
// the number of buckets.
struct Run {
    uint32_t b, begin, count;
};
// A bucket that is not large.
FN Run small_bucket(const Whole& all, uint32_t b) {
    if (b < all.buckets && !all.is_large(b)) return {b, all.starts[b], all.size(b)};
    return {all.buckets, 0, 0};
}
// The piece of cell c, whose mark is set.
FN Run piece_of(const Whole& all, uint32_t c, Mark& mark) {
    const uint32_t last = c * all.cell + all.cell - 1;
    mark = {0, 0};
    if (last >= all.starts[all.buckets]) return {all.buckets, 0, 0};
    const uint32_t b = bucket_of(all, last), start = all.starts[b];
    const uint32_t number = c - start / all.cell, before = number * all.length();
    if (!all.is_large(b) || before >= all.size(b)) return {all.buckets, 0, 0};
    const uint32_t left = all.size(b) - before, pieces = all.pieces(b);
    if (number == 0 && pieces > 1) mark = {b, pieces};
    return {b, start + before, left < all.length() ? left : all.length()};
}
// The first blocks have a team for each of some buckets that are not large, each of the others the
// piece of one cell.
template <class F>
FN void sum_whole(Xyzz<F>* out, Xyzz<F>* parts, Mark* marks, const Affine<F>* base,
                  const Whole& all, uint32_t team_size, F* shared) {
    const uint32_t blocks = (all.buckets * team_size + SUM_GROUPS - 1) / SUM_GROUPS;
    const bool cut = blockIdx.x >= blocks;
    const uint32_t c = blockIdx.x - blocks;
    const Team team = Team::of(cut ? SUM_GROUPS : team_size);
    Mark mark;
    const Run run = cut ? piece_of(all, c, mark) : small_bucket(all, team.output);
    if (cut && threadIdx.x == 0) marks[c] = mark;
    if (cut && run.count == 0) return;
    const uint32_t* const references = all.references + run.begin;
    const F sum = team_sum(team, run.count, shared,
                           [&](uint32_t k) { return load_split_signed(base, references[k]); });
    if (team.member > 0 || run.b == all.buckets) return;
    store_split(cut && all.pieces(run.b) > 1 ? parts + c : out + run.b, sum);
}
// What is in more than one piece, by a block that looks at every `blocks`-th cell, 32 at most.
template <class F>
FN void join_pieces(Xyzz<F>* out, const Xyzz<F>* parts, const Mark* marks, uint32_t cells,
                    uint32_t blocks, F* shared) {
    const auto cell_of = [&](uint32_t lane) { return blockIdx.x + lane * blocks; };
    const uint32_t c = cell_of(lane_index());
    const Mark none = {0, 0}, mark = c < cells ? marks[c] : none;
    uint32_t own = __ballot_sync(ALL_LANES, mark.pieces > 0);
#pragma unroll 1
    for (; own; own &= own - 1) {
        const uint32_t lane = LANES - 1 - leading_zeros(own & (0 - own));
        const uint32_t b = broadcast(mark.bucket, lane), pieces = broadcast(mark.pieces, lane);
        const Xyzz<F>* const first = parts + cell_of(lane);
        const Team team = Team::of(SUM_GROUPS);
        const F sum = team_sum(team, pieces, shared,
                               [&](uint32_t k) { return load_split(first + k); });
        if (team.member == 0) store_split(out + b, sum);
    }
}
