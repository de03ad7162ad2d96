// Merges buckets of many shares: a block merges the runs of 32 units and is itself a unit of the
// next round; three rounds merge 2^15 threads. Four lanes add two runs, with under half the latency
// of one lane. Steps that no unit needs are skipped: buckets smaller than a share cost one addition
// in the first round, none later.
#pragma once
#include "load_balanced.cuh"
#include "../curve/split.cuh"

constexpr uint32_t MERGE_THREADS = LANES * SPLIT_LANES;

// The open runs of 32 units, one bit per unit.
struct OpenRuns {
    uint32_t open, ends; // the unit has one; it ends in the next unit's head
    uint32_t links;      // it continues through the next unit
    uint32_t leads;      // it does not come from the previous unit
    uint32_t out, head;  // for leading runs: continues after the 32 units; began before them
};
// The number of consecutive units after unit `own` through which its run continues.
FN uint32_t continued_units(uint32_t links, uint32_t own) {
    const uint32_t gaps = ~(links >> own);
    return gaps ? LANES - 1 - leading_zeros(gaps & (0u - gaps)) : LANES;
}
// The same number, limited to the 32 units.
FN uint32_t continued_units_inside(uint32_t links, uint32_t own) {
    const uint32_t reach = continued_units(links, own), most = LANES - 1 - own;
    return reach < most ? reach : most;
}
// Computed by every warp, one lane per unit; the first warp writes the resulting unit to `to`.
FN OpenRuns open_runs_of(const UnitState* units, uint32_t count, uint32_t first, UnitState* to) {
    const uint32_t lane = lane_index(), i = first + lane;
    const UnitState none = {0, 0};
    const UnitState unit = i < count ? units[i] : none;
    const UnitState next = i + 1 < count ? units[i + 1] : none;
    const auto bits = [](bool each) { return __ballot_sync(ALL_LANES, each); };
    const uint32_t links = bits(next.state & TAIL_BEGAN_EARLIER);
    const bool open = unit.state & HAS_TAIL, came = unit.state & TAIL_BEGAN_EARLIER;
    const bool leads = open && (lane == 0 || !(links >> (lane - 1) & 1));
    const bool out = leads && lane + continued_units(links, lane) >= LANES;
    const bool head = leads && !out && came;
    const OpenRuns all = {bits(open),  bits(next.state & HAS_HEAD), links,
                          bits(leads), bits(out),               bits(head)};
    const uint32_t state = (all.head ? HAS_HEAD : 0) | (all.out ? HAS_TAIL : 0);
    if (warp_index() == 0 && (out || (all.out == 0 && lane == 0))) {
        *to = {state | (out && came ? TAIL_BEGAN_EARLIER : 0), out ? unit.start : 0};
    }
    return all;
}

// Joins the runs of 32 units of `from`, which has `count`, into unit `block` of `to`. All threads
// take part; `shared` has one element per thread.
template <class F>
FN void merge_units(F* shared, const PartialRuns<F>& from, const PartialRuns<F>& to,
                    Xyzz<F>* tail_sums, uint32_t count, uint32_t block) {
    const uint32_t own = threadIdx.x / SPLIT_LANES, i = block * LANES + own;
    const OpenRuns all = open_runs_of(from.units, count, block * LANES, to.units + block);
    const auto is = [&](uint32_t bits) { return (bits >> own & 1) != 0; };
    const uint32_t above = continued_units_inside(all.links, own);
    F sum = is(all.open) ? load_split(&from.tails[i]) : zero<F>();
    const bool ends = is(all.ends);
    if (__any_sync(ALL_LANES, ends)) {
        sum = split_add(sum, ends ? load_split(&from.heads[i + 1]) : zero<F>());
    }
    // The same bound in all warps.
    const uint32_t lanes = continued_units_inside(all.links, lane_index());
#pragma unroll 1
    for (uint32_t delta = 1; __any_sync(ALL_LANES, delta <= lanes); delta *= 2) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        const bool adds = delta <= above;
        const F theirs = adds ? shared[threadIdx.x + SPLIT_LANES * delta] : zero<F>();
        __syncthreads();
        if (__any_sync(ALL_LANES, adds)) sum = split_add(sum, theirs);
    }
    if (!is(all.leads)) return;
    Xyzz<F>* const place = is(all.out)    ? &to.tails[block]
                           : is(all.head) ? &to.heads[block]
                                          : &tail_sums[from.units[i].start / 2];
    store_split(place, sum);
}
