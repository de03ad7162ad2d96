// Bucket sums for few references: teams of lanes sum whole buckets, without a plan. The number of
// lanes per bucket follows from its size.
//
// A bucket of `large` or more references is split into pieces of 32 `each`, one block per piece.
// The assignment needs no list: cell c covers references c cell to c cell + cell - 1, with `cell`
// at most `large` and at most half a piece. So a large bucket of s references contains the last
// reference of at least floor(s / cell) cells, and has no more pieces than that. The block of the
// first such cell sums the first piece, the next block the second, and so on. Bisection finds the
// bucket that contains a cell's last reference.
#pragma once
#include "team_sums.cuh"

struct Whole {
    const uint32_t *references, *starts; // see Buckets
    uint32_t buckets;
    uint32_t large, cell, each;

    FN uint32_t size(uint32_t b) const { return starts[b + 1] - starts[b]; }
    FN bool is_large(uint32_t b) const { return size(b) >= large; }
    // References per piece, and pieces of a large bucket.
    FN uint32_t length() const { return SUM_GROUPS * each; }
    FN uint32_t pieces(uint32_t b) const { return (size(b) + length() - 1) / length(); }
};
// Marks a cell with the first piece of a large bucket of several pieces; otherwise `pieces` is 0.
struct alignas(8) Mark {
    uint32_t bucket, pieces;
};

// The bucket that contains reference `at`.
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

// References begin to begin + count - 1 of bucket b, for a team; none if b is the bucket count.
struct Run {
    uint32_t b, begin, count;
};
// Bucket b, unless it is large.
FN Run small_bucket(const Whole& all, uint32_t b) {
    if (b < all.buckets && !all.is_large(b)) return {b, all.starts[b], all.size(b)};
    return {all.buckets, 0, 0};
}
// The piece of cell c; sets its mark.
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
// In the first blocks each team sums a bucket that is not large; other blocks sum a cell's piece.
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
// Joins buckets of several pieces. A block checks every `blocks`-th cell, 32 at most.
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
