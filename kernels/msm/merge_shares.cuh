// Merges buckets of many shares: a block merges the runs of 32 units and is itself a unit of the
// next round; three rounds merge 2^15 threads. Four lanes add two runs, with under half the latency
// of one lane. Steps that no unit needs are skipped: buckets smaller than a share cost one addition
// in the first round, none later.
#pragma once
#include "load_balanced.cuh"
#include "../curve/split.cuh"

constexpr uint32_t MERGE_THREADS = LANES * SPLIT;

// The open runs of 32 units, one bit per unit.
struct Merging {
    uint32_t open, ends; // the unit has one; it ends in the next unit's head
    uint32_t links;      // it continues through the next unit
    uint32_t leads;      // it does not come from the previous unit
    uint32_t out, head;  // for leading runs: continues after the 32 units; began before them
};
// The number of consecutive units after unit `own` through which its run continues.
FN uint32_t reach_of(uint32_t links, uint32_t own) {
    const uint32_t cut = ~(links >> own);
    return cut ? LANES - 1 - leading_zeros(cut & (0u - cut)) : LANES;
}
// The same number, limited to the 32 units.
FN uint32_t above_of(uint32_t links, uint32_t own) {
    const uint32_t reach = reach_of(links, own), most = LANES - 1 - own;
    return reach < most ? reach : most;
}
// Computed by every warp, one lane per unit; the first warp writes the resulting unit to `to`.
FN Merging merging_of(const Unit* units, uint32_t count, uint32_t first, Unit* to) {
    const uint32_t lane = lane_index(), i = first + lane;
    const Unit none = {0, 0};
    const Unit unit = i < count ? units[i] : none;
    const Unit next = i + 1 < count ? units[i + 1] : none;
    const auto bits = [](bool each) { return __ballot_sync(ALL_LANES, each); };
    const uint32_t links = bits(next.state & CAME);
    const bool open = unit.state & TAIL, came = unit.state & CAME;
    const bool leads = open && (lane == 0 || !(links >> (lane - 1) & 1));
    const bool out = leads && lane + reach_of(links, lane) >= LANES, head = leads && !out && came;
    const Merging all = {bits(open),  bits(next.state & HEAD), links,
                         bits(leads), bits(out),               bits(head)};
    const uint32_t state = (all.head ? HEAD : 0) | (all.out ? TAIL : 0);
    if (warp_index() == 0 && (out || (all.out == 0 && lane == 0))) {
        *to = {state | (out && came ? CAME : 0), out ? unit.start : 0};
    }
    return all;
}

// Joins the runs of 32 units of `from`, which has `count`, into unit `block` of `to`. All threads
// take part; `shared` has one element per thread.
template <class F>
FN void merge_units(F* shared, const Runs<F>& from, const Runs<F>& to, Xyzz<F>* finals,
                    uint32_t count, uint32_t block) {
    const uint32_t own = threadIdx.x / SPLIT, i = block * LANES + own;
    const Merging all = merging_of(from.units, count, block * LANES, to.units + block);
    const auto is = [&](uint32_t bits) { return (bits >> own & 1) != 0; };
    const uint32_t above = above_of(all.links, own);
    F sum = is(all.open) ? load_split(&from.tails[i]) : zero<F>();
    const bool ends = is(all.ends);
    if (__any_sync(ALL_LANES, ends)) {
        sum = split_add(sum, ends ? load_split(&from.heads[i + 1]) : zero<F>());
    }
    const uint32_t lanes = above_of(all.links, lane_index()); // same bound in all warps
#pragma unroll 1
    for (uint32_t delta = 1; __any_sync(ALL_LANES, delta <= lanes); delta *= 2) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        const bool adds = delta <= above;
        const F theirs = adds ? shared[threadIdx.x + SPLIT * delta] : zero<F>();
        __syncthreads();
        if (__any_sync(ALL_LANES, adds)) sum = split_add(sum, theirs);
    }
    if (!is(all.leads)) return;
    Xyzz<F>* const place = is(all.out)    ? &to.tails[block]
                           : is(all.head) ? &to.heads[block]
                                          : &finals[from.units[i].start / 2];
    store_split(place, sum);
}
