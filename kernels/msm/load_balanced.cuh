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
constexpr uint32_t HEAD = 1; // the first run began earlier
constexpr uint32_t TAIL = 2; // the last run continues
constexpr uint32_t CAME = 4; // the tail began earlier
struct alignas(8) Unit {
    uint32_t state;
    uint32_t start; // first entry of the tail's bucket, if it began in this unit
};
template <class F> struct Runs {
    Xyzz<F>*heads, *tails; // of each unit
    Unit* units;
};

// Splits entries among at most `shares_max` threads, at least `share_min` entries each.
struct Shares {
    uint32_t each, count;
};
FN Shares shares_of(uint32_t entries, uint32_t shares_max, uint32_t share_min) {
    const uint32_t even = (entries + shares_max - 1) / shares_max;
    const uint32_t each = even > share_min ? even : share_min;
    return {each, (entries + each - 1) / each};
}

// Sums one thread's share of the entries; an entry is a reference and its bucket's first entry.
template <class F, uint32_t T, class Cell>
FN void add_share(Bucket<F, T, Cell> bucket, const Runs<F>& runs, Xyzz<F>* finals,
                  const Affine<F>* base, const Pair* list, uint32_t entries, const Shares& shares) {
    const uint32_t unit = blockIdx.x * T + threadIdx.x;
    if (unit >= shares.count) return;
    const uint32_t begin = unit * shares.each;
    const uint32_t end = entries - begin < shares.each ? entries : begin + shares.each;
    Making<F, Cell>& sum = bucket.sum;
    const auto travel = [&](uint32_t reference) {
        const Affine<F>* const p = base + (reference & ~SIGN);
        bucket.x.fetch_from(&p->x);
        bucket.y.fetch_from(&p->y);
        copies_commit();
    };
    Unit left = {0, 0};
    Pair now = list[begin], next = list[begin + 1 < end ? begin + 1 : begin];
    sum.zz = zero<F>();
    travel(now.first);
#pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t start = now.second, sign = now.first;
        const auto send_next = [&] {
            now = next;
            if (i + 1 < end) travel(now.first);
            if (i + 2 < end) next = list[i + 2];
        };
        const auto read = [&] {
            if constexpr (APART<F, Cell>) send_next();
        };
        const auto waited = [&] {
            if constexpr (!APART<F, Cell>) send_next();
        };
        copies_wait<0>();
        accumulate_from(
            sum, [&] { return F(bucket.x); }, [&] { return with_sign(F(bucket.y), sign); }, read,
            waited);
        if (i + 1 < end && now.second == start) continue;
        const bool came = start < begin;
        const bool open = i + 1 == end && end < entries && list[end].second == start;
        if (open) {
            left.state |= TAIL | (came ? CAME : 0);
            left.start = start;
        } else if (came) {
            left.state |= HEAD;
        }
        store_sum(open ? &runs.tails[unit] : came ? &runs.heads[unit] : &finals[start / 2], sum);
        sum.zz = zero<F>();
    }
    runs.units[unit] = left;
}
