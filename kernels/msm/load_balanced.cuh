// Load-balanced bucket sums (Chen, Peng, Dai, Luo, He: TCHES 2024/2): every thread adds the same
// number of elements, regardless of bucket boundaries.
//
// A run is the part of one bucket within a share. A run that is a whole bucket is final. A unit,
// here a thread, stores other runs in its own places, without collisions: its head is the run that
// continues from the previous unit and ends here, its tail the run that continues in the next unit,
// which may be all of the unit. team_sums.cuh and merge_shares.cuh combine the runs of a bucket.
#pragma once
#include "levels.cuh"
#include "../accumulate.cuh"
#include "../warp.cuh"

// The state of a unit's runs.
constexpr uint32_t HAS_HEAD = 1; // the first run began earlier
constexpr uint32_t HAS_TAIL = 2; // the last run continues
constexpr uint32_t TAIL_BEGAN_EARLIER = 4; // in another unit
struct alignas(8) UnitState {
    uint32_t state;
    uint32_t start; // first entry of the tail's bucket, if it began in this unit
};
template <class F> struct PartialRuns {
    Xyzz<F>*heads, *tails; // of each unit
    UnitState* units;
};

// Splits entries among at most `shares_max` threads, at least `share_min` entries each.
struct Shares {
    uint32_t length, count;
};
FN Shares shares_of(uint32_t entries, uint32_t shares_max, uint32_t share_min) {
    const uint32_t even = (entries + shares_max - 1) / shares_max;
    const uint32_t length = even > share_min ? even : share_min;
    return {length, (entries + length - 1) / length};
}

// Sums one thread's share of the entries; an entry is a reference and its bucket's first entry.
template <class F, uint32_t THREADS, class Cell>
FN void add_share(BucketAccumulator<F, THREADS, Cell> bucket, const PartialRuns<F>& runs,
                  Xyzz<F>* tail_sums, const Affine<F>* base, const Pair* list, uint32_t entries,
                  const Shares& shares) {
    const uint32_t unit = blockIdx.x * THREADS + threadIdx.x;
    if (unit >= shares.count) return;
    const uint32_t begin = unit * shares.length;
    const uint32_t end = entries - begin < shares.length ? entries : begin + shares.length;
    XyzzAccumulator<F, Cell>& sum = bucket.sum;
    const auto fetch_point = [&](uint32_t reference) {
        const Affine<F>* const p = base + (reference & ~SIGN);
        bucket.x.fetch_from(&p->x);
        bucket.y.fetch_from(&p->y);
        copies_commit();
    };
    UnitState left = {0, 0};
    Pair now = list[begin], next = list[begin + 1 < end ? begin + 1 : begin];
    sum.zz = zero<F>();
    fetch_point(now.first);
#pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t start = now.second, sign = now.first;
        const auto fetch_next = [&] {
            now = next;
            if (i + 1 < end) fetch_point(now.first);
            if (i + 2 < end) next = list[i + 2];
        };
        const auto on_point_read = [&] {
            if constexpr (HAS_SUMMAND_COLUMNS<F, Cell>) fetch_next();
        };
        const auto on_cells_free = [&] {
            if constexpr (!HAS_SUMMAND_COLUMNS<F, Cell>) fetch_next();
        };
        copies_wait<0>();
        accumulate_from(
            sum, [&] { return F(bucket.x); }, [&] { return with_sign(F(bucket.y), sign); },
            on_point_read, on_cells_free);
        if (i + 1 < end && now.second == start) continue;
        const bool came = start < begin;
        const bool open = i + 1 == end && end < entries && list[end].second == start;
        if (open) {
            left.state |= HAS_TAIL | (came ? TAIL_BEGAN_EARLIER : 0);
            left.start = start;
        } else if (came) {
            left.state |= HAS_HEAD;
        }
        store_sum(open ? &runs.tails[unit] : came ? &runs.heads[unit] : &tail_sums[start / 2], sum);
        sum.zz = zero<F>();
    }
    runs.units[unit] = left;
}
