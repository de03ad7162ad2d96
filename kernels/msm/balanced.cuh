// Sums of buckets by equal shares (Chen, Peng, Dai, Luo, He: TCHES 2024/2): every thread adds up as
// many elements, whatever buckets they are of.
//
// A run is what a share has of one bucket. A run that is a whole bucket is final. The others are
// left in the unit's own places, so nothing collides: the run that a unit, here a thread, takes over
// from the unit before and ends is its head, the one that it leaves open is its tail, which may be
// all of the unit. A warp then joins the runs of 32 units and is a unit of the next round itself;
// three rounds join 2^15 threads. Whatever is the same for all lanes is skipped: buckets smaller
// than a share take one addition in the first round, and none later.
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

// s += (x, y, zz, zzz), 12M + 2S. All of them cells.
template <class F, class Cell>
FN void add_in_place(Making<F, Cell>& s, const Cell& x, const Cell& y, const Cell& zz,
                     const Cell& zzz) {
    if (is_zero_loose(F(zz))) return;
    if (is_zero_loose(F(s.zz))) {
        s.x = F(x), s.y = F(y), s.zz = F(zz), s.zzz = F(zzz);
        return;
    }
    s.r = times(F(y), F(s.zzz));
    s.y = times(F(s.y), F(zzz));
    s.r = sub_loose(F(s.r), F(s.y));
    s.zzz = times(F(s.zzz), F(zzz));
    F u = times(F(x), F(s.zz));
    s.x = times(F(s.x), F(zz));
    u = sub_loose(u, F(s.x));
    s.zz = times(F(s.zz), F(zz));
    bool is_tangent = false;
    if (is_zero_loose(u)) { // opposite points: zz becomes 0
        F r = s.r;
        is_tangent = tangent(u, r, F(s.x), F(s.y));
        s.r = r;
    }
    chord(s, u, is_tangent, [] {});
}

constexpr uint32_t MERGE_COLUMNS = 10;

// Joins the runs of 32 units: `from` has `count`. The warp is a unit of `to`.
template <class F>
FN void merge_units(Quad* shared, const Runs<F>& from, const Runs<F>& to, Xyzz<F>* finals,
                    uint32_t count, uint32_t warp) {
    using Cell = Column<F, LANES>;
    const auto at = [&](uint32_t k) { return column<F, LANES>(shared, k); };
    Making<F, Cell> sum = {at(0), at(1), at(2), at(3), at(4), at(5)};
    const Cell x = at(6), y = at(7), zz = at(8), zzz = at(9);
    const uint32_t lane = lane_index(), i = warp * LANES + lane;
    const Unit none = {0, 0};
    const Unit unit = i < count ? from.units[i] : none;
    const Unit next = i + 1 < count ? from.units[i + 1] : none;
    const bool open = unit.state & TAIL, ends = next.state & HEAD, goes_on = next.state & CAME;
    if (open) {
        const Xyzz<F>* const own = &from.tails[i];
        sum.x = load<F>(&own->x), sum.y = load<F>(&own->y);
        sum.zz = load<F>(&own->zz), sum.zzz = load<F>(&own->zzz);
    }
    if (ends) {
        const Xyzz<F>* const head = &from.heads[i + 1];
        x = load<F>(&head->x), y = load<F>(&head->y);
        zz = load<F>(&head->zz), zzz = load<F>(&head->zzz);
        add_in_place(sum, x, y, zz, zzz);
    }
    __syncwarp(); // sums are where other lanes read them
    // Lane k's run goes on in lane k + 1, that of the last lane in the next warp.
    const uint32_t links = __ballot_sync(ALL_LANES, goes_on);
    const uint32_t cut = ~(links >> lane);
    const uint32_t reach = cut ? LANES - 1 - leading_zeros(cut & (0u - cut)) : LANES;
    const uint32_t above = reach < LANES - 1 - lane ? reach : LANES - 1 - lane;
#pragma unroll 1
    for (uint32_t delta = 1; __any_sync(ALL_LANES, delta <= above); delta *= 2) {
        if (delta <= above) {
            const auto theirs = [&](const Cell& cell) { return F(Cell{cell.at + delta}); };
            x = theirs(sum.x), y = theirs(sum.y), zz = theirs(sum.zz), zzz = theirs(sum.zzz);
        }
        __syncwarp(); // all have read what they add
        if (delta <= above) add_in_place(sum, x, y, zz, zzz);
        __syncwarp();
    }
    const bool came = unit.state & CAME; // of those that lead a run, lane 0 alone
    const bool leads = open && (lane == 0 || !(links >> (lane - 1) & 1));
    const bool out = leads && lane + reach >= LANES;
    const bool head = leads && !out && came;
    if (leads) {
        store_sum(out ? &to.tails[warp] : head ? &to.heads[warp] : &finals[unit.start / 2], sum);
    }
    const uint32_t heads = __ballot_sync(ALL_LANES, head), outs = __ballot_sync(ALL_LANES, out);
    const uint32_t state = (heads ? HEAD : 0) | (outs ? TAIL : 0);
    if (out || (outs == 0 && lane == 0)) {
        to.units[warp] = {state | (out && came ? CAME : 0), out ? unit.start : 0};
    }
}
