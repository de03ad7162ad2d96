// Sums of buckets by equal shares (Chen, Peng, Dai, Luo, He: TCHES 2024/2): every thread adds up as
// many elements, whatever buckets they are of.
//
// A run is what a share has of one bucket. A run that is a whole bucket is final. The others are
// left in the unit's own places, so nothing collides: the run that a unit, here a thread, takes over
// from the unit before and ends is its head, the one that it leaves open is its tail, which may be
// all of the unit. joined.cuh and rounds.cuh put the runs of a bucket together.
#pragma once
#include "levels.cuh"
#include "../accumulate.cuh"
#include "../warp.cuh"

// What a unit leaves open.
constexpr uint32_t HEAD = 1; // the first run began before
constexpr uint32_t TAIL = 2; // the last run goes on
constexpr uint32_t CAME = 4; // and began before
struct alignas(8) Unit {
    uint32_t state;
    uint32_t start; // of the tail's bucket among all entries, where it did not come from before
};
template <class F> struct Runs {
    Xyzz<F>*heads, *tails; // of each unit
    Unit* units;
};

// The shares of threads, at most `most` and of `least` entries or more.
struct Shares {
    uint32_t each, count;
};
FN Shares shares_of(uint32_t entries, uint32_t most, uint32_t least) {
    const uint32_t even = (entries + most - 1) / most, each = even > least ? even : least;
    return {each, (entries + each - 1) / each};
}

// Adds up one thread's share of the entries: a reference and the bucket's first entry each.
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
