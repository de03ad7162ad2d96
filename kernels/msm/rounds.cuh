// Where a bucket has many shares: the runs of 32 units are joined by a block, which is a unit of the
// next round itself; three rounds join 2^15 threads. Four lanes add two runs, so that one addition
// after the other takes less than half as long as by a lane of its own. Whatever is the same for all
// units is skipped: buckets smaller than a share take one addition in the first round, none later.
#pragma once
#include "balanced.cuh"
#include "../curve/split.cuh"

constexpr uint32_t MERGE_THREADS = LANES * SPLIT;

// What becomes of the runs that 32 units leave open, a bit a unit.
struct Merging {
    uint32_t open, ends; // there is one; the next unit has its end
    uint32_t links;      // it goes on in the next unit
    uint32_t leads;      // it does not come from the unit before
    uint32_t out, head;  // of those that lead: it goes on behind the 32; it came from before them
};
// Units that the run of unit `own` goes on for; 32 where that is to the end and further.
FN uint32_t reach_of(uint32_t links, uint32_t own) {
    const uint32_t cut = ~(links >> own);
    return cut ? LANES - 1 - leading_zeros(cut & (0u - cut)) : LANES;
}
// Of the 32.
FN uint32_t above_of(uint32_t links, uint32_t own) {
    const uint32_t reach = reach_of(links, own), most = LANES - 1 - own;
    return reach < most ? reach : most;
}
// Every warp finds out for all units, a lane a unit, and the first one writes what they leave open.
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

// Joins the runs of 32 units: `from` has `count`. Block `block` is a unit of `to`. All threads take
// part; `shared` has an element a thread.
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
    const uint32_t lanes = above_of(all.links, lane_index()); // so that all warps go on equally long
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
