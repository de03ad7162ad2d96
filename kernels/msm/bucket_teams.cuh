// Bucket sums for few references: teams of lanes sum whole buckets, without a plan. The number of
// lanes per bucket follows from its size.
//
// A bucket of `large_min` or more references is split into pieces of 32 `references_per_group`, one
// block per piece. The assignment needs no list: cell c covers the references
// [c * cell, (c + 1) * cell), cell = `cell_references`, which is at most `large_min` and at most
// half a piece. So a large bucket of s references contains the last reference of at least
// floor(s / cell) cells, and has no more pieces than that. The block of the first such cell sums
// the first piece, the next block the second, and so on. Bisection finds the bucket that contains
// a cell's last reference.
#pragma once
#include "team_sums.cuh"

struct BucketSplit {
    const uint32_t *references, *starts; // see SortedBuckets
    uint32_t buckets;
    uint32_t large_min, cell_references, references_per_group;

    FN uint32_t size(uint32_t b) const { return starts[b + 1] - starts[b]; }
    FN bool is_large(uint32_t b) const { return size(b) >= large_min; }
    // References per piece, and pieces of a large bucket.
    FN uint32_t length() const { return SUM_GROUPS * references_per_group; }
    FN uint32_t pieces(uint32_t b) const { return (size(b) + length() - 1) / length(); }
};
// Marks a cell with the first piece of a large bucket of several pieces; otherwise `pieces` is 0.
struct alignas(8) FirstPiece {
    uint32_t bucket, pieces;
};

// The bucket that contains reference `at`.
FN uint32_t bucket_containing(const BucketSplit& all, uint32_t at) {
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
struct ReferenceRange {
    uint32_t b, begin, count;
};
// Bucket b, unless it is large.
FN ReferenceRange small_bucket(const BucketSplit& all, uint32_t b) {
    if (b < all.buckets && !all.is_large(b)) return {b, all.starts[b], all.size(b)};
    return {all.buckets, 0, 0};
}
// The piece of cell c; sets its mark.
FN ReferenceRange piece_of(const BucketSplit& all, uint32_t c, FirstPiece& mark) {
    const uint32_t last = c * all.cell_references + all.cell_references - 1;
    mark = {0, 0};
    if (last >= all.starts[all.buckets]) return {all.buckets, 0, 0};
    const uint32_t b = bucket_containing(all, last), start = all.starts[b];
    const uint32_t number = c - start / all.cell_references, before = number * all.length();
    if (!all.is_large(b) || before >= all.size(b)) return {all.buckets, 0, 0};
    const uint32_t left = all.size(b) - before, pieces = all.pieces(b);
    if (number == 0 && pieces > 1) mark = {b, pieces};
    return {b, start + before, left < all.length() ? left : all.length()};
}
// In the first blocks each team sums a bucket that is not large; other blocks sum a cell's piece.
template <class F>
FN void sum_buckets_or_pieces(Xyzz<F>* out, Xyzz<F>* parts, FirstPiece* marks,
                              const Affine<F>* base, const BucketSplit& all, uint32_t team_size,
                              F* shared) {
    const uint32_t blocks = (all.buckets * team_size + SUM_GROUPS - 1) / SUM_GROUPS;
    const bool is_piece = blockIdx.x >= blocks;
    const uint32_t c = blockIdx.x - blocks;
    const Team team = Team::of(is_piece ? SUM_GROUPS : team_size);
    FirstPiece mark;
    const ReferenceRange run = is_piece ? piece_of(all, c, mark) : small_bucket(all, team.output);
    if (is_piece && threadIdx.x == 0) marks[c] = mark;
    if (is_piece && run.count == 0) return;
    const uint32_t* const references = all.references + run.begin;
    const F sum = team_sum(team, run.count, shared,
                           [&](uint32_t k) { return load_split_signed(base, references[k]); });
    if (team.member > 0 || run.b == all.buckets) return;
    store_split(is_piece && all.pieces(run.b) > 1 ? parts + c : out + run.b, sum);
}
// Joins buckets of several pieces. A block checks every `blocks`-th cell, 32 at most.
template <class F>
FN void join_pieces(Xyzz<F>* out, const Xyzz<F>* parts, const FirstPiece* marks, uint32_t cells,
                    uint32_t blocks, F* shared) {
    const auto cell_of = [&](uint32_t lane) { return blockIdx.x + lane * blocks; };
    const uint32_t c = cell_of(lane_index());
    const FirstPiece none = {0, 0}, mark = c < cells ? marks[c] : none;
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
