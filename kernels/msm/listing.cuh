// Lists what a level adds, or what is left to the tail: item by item, from the buckets' sizes.
//
// A warp writes a range of items. It looks at a window of 32 buckets at a time, one a lane: all
// that an item is follows from its bucket's entry in a few rows, so lanes work that out once a
// bucket and then hand it to those that write the bucket's items, by shuffles. Where buckets with
// items are far apart, each lane looks for the bucket of its own item instead.
#pragma once
#include "levels.cuh"
#include "../warp.cuh"

// Items that a window of 32 buckets must have: one costs two trips to memory, and a row of searches
// four times that.
constexpr uint32_t WINDOW_MIN = 8;

// The greatest b with row[b] <= item, below `end`, given row[lo] <= item < row[end]: ever longer
// steps from lo.
FN uint32_t bucket_of(const uint32_t* row, uint32_t item, uint32_t lo, uint32_t end) {
    uint32_t step = 1;
    while (step < end - lo && row[lo + step] <= item) {
        lo += step;
        step *= 2;
    }
    uint32_t hi = step < end - lo ? lo + step : end;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        const bool up = row[middle] <= item;
        lo = up ? middle : lo;
        hi = up ? hi : middle;
    }
    return lo;
}
// The same from anywhere, by a warp together: 33 parts a step.
FN uint32_t warp_bucket_of(const uint32_t* row, uint32_t item, uint32_t end) {
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
// The first lane whose `end` is above `item`, given that `end` ascends; the last one if none is.
FN uint32_t lane_of(uint32_t item, uint32_t end) {
    uint32_t lane = 0;
#pragma unroll
    for (uint32_t step = LANES / 2; step > 0; step /= 2) {
        if (__shfl_sync(ALL_LANES, end, int(lane + step - 1)) <= item) lane += step;
    }
    return lane;
}

// The items of one bucket: from `begin` on, below `end`. Item i begins with element step i + shift
// of all; where i is `odd`, its last element is `last` instead.
struct Items {
    uint32_t begin, end, shift, odd, last;
};

// A level, or the tail: pairs of what `below` levels leave, or each such element of its own.
struct Listing {
    const Tree* tree;
    const uint32_t* row;
    uint32_t below;
    bool tail;

    FN uint32_t step() const { return tail ? 1 : 2; }
    // Where bucket b's begin and end, and no more.
    FN Items range_of(uint32_t b) const {
        const uint32_t count = tree->buckets.count;
        return {row[b < count ? b : count], row[b < count ? b + 1 : count], 0, ~0u, 0};
    }
    FN Items items_of(uint32_t b, Items items) const {
        const uint32_t begin = items.begin, end = items.end;
        if (begin == end) return items;
        const Buckets& all = tree->buckets;
        const uint32_t size = all.size(b), left = left_of(size, below);
        uint32_t first = all.starts[b];
        bool has_last = all.adds_onto(); // an element that is not among its neighbours
        if (below > 0) {
            first = tree->sums + tree->levels->first[below] + tree->row(below)[b];
            has_last = left_of(size, below - 1) % 2 == 1;
        }
        items.shift = first - step() * begin;
        if (has_last && (tail || left % 2 == 0)) {
            items.odd = end - 1;
            items.last = tree->element(b, size, below, left - 1);
        }
        return items;
    }
    FN uint32_t element(uint32_t at) const {
        return below == 0 ? tree->buckets.references[at] : at;
    }
    // Items begin <= i < end, begin < end, to list[i].
    FN void write(Pair* list, uint32_t begin, uint32_t end) const {
        const uint32_t count = tree->buckets.count, lane = lane_index();
        uint32_t first = warp_bucket_of(row, begin, count);
        for (uint32_t at = begin; at < end;) {
            const uint32_t last = first + LANES < count ? first + LANES : count;
            uint32_t b = first + lane;
            Items mine = range_of(b);
            const uint32_t window = broadcast(mine.end, LANES - 1);
            const uint32_t upto = window < end ? window : end;
            const bool dense = upto == end || upto - at >= WINDOW_MIN;
            const uint32_t stop = dense ? upto : end - at < LANES ? end : at + LANES;
            if (!dense) {
                b = bucket_of(row, at + lane < end ? at + lane : end - 1, first, count);
                mine = range_of(b);
            }
            mine = items_of(b, mine);
#pragma unroll 1
            for (uint32_t i = at + lane; i - lane < stop; i += LANES) {
                const uint32_t from = dense ? lane_of(i, mine.end) : lane;
                const auto theirs = [&](uint32_t value) {
                    return __shfl_sync(ALL_LANES, value, int(from));
                };
                const uint32_t start = step() * i + theirs(mine.shift);
                const bool odd = theirs(mine.odd) == i;
                const uint32_t other = theirs(mine.last), before = theirs(mine.begin);
                if (i >= stop) continue;
                Pair pair;
                if (tail) {
                    pair = {odd ? other : element(start), before};
                } else {
                    pair = {element(start), odd ? other : element(start + 1)};
                }
                list[i] = pair;
            }
            at = stop;
            first = dense ? last : broadcast(b, LANES - 1);
        }
    }
};
