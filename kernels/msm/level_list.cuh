// Lists the additions of each level and the entries of the tail, computed from the buckets' sizes.
//
// A warp processes a group of 32 buckets, one per lane, through all levels. What a level leaves of
// a bucket follows from the level before, so a level reads its row once. The lanes then write the
// items of all 32 buckets together: several lanes share a bucket with more than OWN_ITEMS items, so
// that no lane has many to write and adjacent lanes write adjacent items. Groups much larger than
// others are split into parts.
#pragma once
#include "levels.cuh"
#include "../warp.cuh"

// Items of a bucket that one lane writes; with more, several lanes share the bucket.
constexpr uint32_t OWN_ITEMS = 3;

// Part `number` of `count` equal parts of a group's items.
struct GroupPart {
    uint32_t number, count;
};

// The greatest b with row[b] <= item, given row[0] <= item < row[end]. All lanes of the warp take
// part: each step probes 32 places.
FN uint32_t warp_bucket_containing(const uint32_t* row, uint32_t item, uint32_t end) {
    uint32_t lo = 0, hi = end;
    while (hi - lo > 1) {
        const uint32_t step = (hi - lo + LANES) / (LANES + 1);
        const uint32_t probe = lo + (lane_index() + 1) * step;
        const bool up = probe < hi && row[probe] <= item;
        lo += uint32_t(__popc(__ballot_sync(ALL_LANES, up))) * step;
        hi = hi - lo > step ? lo + step : hi;
    }
    return lo;
}

// The remaining elements of a bucket: element k is number from + k of the level's input, except the
// last, which is `last`, since it may come from any level.
struct RemainingElements {
    uint32_t left, from, last;
};
// A level's items of one bucket, begin <= i < end. Item i begins with number step i + shift of the
// level's input; the last element of item `odd` is `last` instead.
struct BucketItems {
    uint32_t begin, end, shift, odd, last;
};

struct LevelLister {
    BucketTree tree;
    Pair* list;

    FN uint32_t clipped(uint32_t b) const {
        return b < tree.buckets.count ? b : tree.buckets.count;
    }
    // The row of a level, or the tail's row.
    FN const uint32_t* row(uint32_t level) const {
        return level <= tree.levels->count ? tree.row(level) : tree.tail();
    }
    // The number of items of a group in `row`.
    FN uint32_t items_of(const uint32_t* row, uint32_t group) const {
        return row[clipped((group + 1) * LANES)] - row[group * LANES];
    }
    FN RemainingElements references_of(uint32_t b) const {
        const SortedBuckets& all = tree.buckets;
        const uint32_t start = all.starts[clipped(b)], end = all.starts[clipped(b + 1)];
        if (start == end) return {0, start, 0};
        if (all.adds_onto()) return {end - start + 1, start, all.held + b};
        return {end - start, start, all.references[end - 1]};
    }
    // What remains after `level`, where the bucket's first sum has point index `sum`.
    FN static RemainingElements after(const RemainingElements& now, uint32_t sum) {
        const uint32_t pairs = now.left / 2;
        const bool paired = pairs > 0 && now.left % 2 == 0;
        return {now.left - pairs, sum, paired ? sum + pairs - 1 : now.last};
    }
    // The bucket's items in the part; `at` is its first item.
    FN static BucketItems items_in(const RemainingElements& now, uint32_t at, bool tail,
                                   const GroupPart& part) {
        const uint32_t count = !tail ? now.left / 2 : now.left > 1 ? now.left : 0;
        BucketItems items = {at, at + count, now.from - (tail ? at : 2 * at), ~0u, now.last};
        if (tail || now.left % 2 == 0) items.odd = items.end - 1;
        if (part.count > 1) {
            const uint32_t first = broadcast(at, 0);
            const uint64_t all = broadcast(items.end, LANES - 1) - first;
            const uint32_t lo = first + uint32_t(all * part.number / part.count);
            const uint32_t hi = first + uint32_t(all * (part.number + 1) / part.count);
            items.begin = items.begin > lo ? items.begin : lo;
            items.end = items.end < hi ? items.end : hi;
        }
        return items;
    }
    // `stored`: the level's input is stored references; otherwise consecutive points.
    FN void write_items(Pair* to, const BucketItems& mine, uint32_t at, bool tail,
                        bool stored) const {
        const uint32_t own = mine.end > mine.begin ? mine.end - mine.begin : 0;
        uint32_t lg_width = 0; // lanes per bucket
        while (1u << lg_width < LANES && __any_sync(ALL_LANES, own > OWN_ITEMS << lg_width))
            lg_width++;
        const uint32_t width = 1u << lg_width, apart = LANES >> lg_width;
        const auto element = [&](uint32_t number) {
            return stored ? tree.buckets.references[number] : number;
        };
#pragma unroll 1
        for (uint32_t turn = 0; turn < width; turn++) {
            const uint32_t owner = turn * apart + (lane_index() >> lg_width);
            const BucketItems theirs = each_word(
                mine, [=](auto w) { return __shfl_sync(ALL_LANES, w, int(owner)); });
            const uint32_t before = __shfl_sync(ALL_LANES, at, int(owner));
            uint32_t i = theirs.begin + (lane_index() & (width - 1));
#pragma unroll 1
            for (; i < theirs.end; i += width) {
                const bool odd = i == theirs.odd;
                const uint32_t number = (tail ? i : 2 * i) + theirs.shift;
                if (tail) {
                    to[i] = {odd ? theirs.last : element(number), before};
                } else {
                    to[i] = {element(number), odd ? theirs.last : element(number + 1)};
                }
            }
        }
    }
    FN void write(uint32_t group, const GroupPart& part) const {
        const uint32_t b = group * LANES + lane_index(), run = tree.levels->count;
        const uint32_t last = tree.levels->teams ? run : run + 1;
        uint32_t at = row(1)[clipped(b)];
        RemainingElements mine = references_of(b);
#pragma unroll 1
        for (uint32_t level = 1; level <= last; level++) {
            const bool tail = level > run;
            const uint32_t first = tree.levels->first[level];
            const uint32_t next = tail ? 0 : row(level + 1)[clipped(b)];
            write_items(list + first, items_in(mine, at, tail, part), at, tail, level == 1);
            mine = after(mine, tree.sums + first + at);
            at = next;
        }
    }
};
