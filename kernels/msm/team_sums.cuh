// Sums by teams of split lanes, which have under half the latency of one lane on a serial chain of
// additions. For the usual case that no bucket is much larger than the others.
#pragma once
#include "load_balanced.cuh"
#include "reduce/team_sum.cuh"

constexpr uint32_t JOIN_THREADS = 128;
// Shares of one bucket that are joined serially: the rounds of merges take as long as 15. Figures
// were not kept.
constexpr uint32_t JOIN_SHARES = 8;

FN bool joins_at_once(const TreeLevels& levels, const Shares& shares) {
    return remaining_of(levels.largest, levels.count) <= JOIN_SHARES * shares.length;
}
// Four lanes per share: if the share ends a run that began earlier, they add the run's other parts.
template <class F>
FN void join_runs(const PartialRuns<F>& runs, Xyzz<F>* tail_sums, const Pair* list,
                  const Shares& shares) {
    const uint32_t unit = (blockIdx.x * JOIN_THREADS + threadIdx.x) / SPLIT_LANES;
    const bool ends = unit < shares.count && runs.units[unit].state & HAS_HEAD;
    if (!__any_sync(ALL_LANES, ends)) return;
    // The loop keeps only two words plus the sum: Fp2 leaves no more registers.
    const uint32_t start = ends ? list[unit * shares.length].second : 0;
    uint32_t left = ends ? unit - start / shares.length : 0;
    F sum = ends ? load_split(&runs.heads[unit]) : zero<F>();
#pragma unroll 1
    for (; __any_sync(ALL_LANES, left > 0); left -= left > 0) {
        sum = split_add(sum, left > 0 ? load_split(&runs.tails[unit - left]) : zero<F>());
    }
    if (ends) store_split(&tail_sums[start / 2], sum);
}

// The lane's coordinate of a reference's point, negated if the reference is negative.
template <class F> FN F load_split_signed(const Affine<F>* base, uint32_t reference) {
    const F a = load_split(base + (reference & ~SIGN));
    if (coordinate_index() != 1 || !(reference & SIGN)) return a;
    return reduce_once<2>(neg_lazy<2>(a));
}
// One team per bucket that has two or more elements after the levels.
template <class F>
FN void sum_remaining_elements(Xyzz<F>* tail_sums, const Affine<F>* base, const BucketTree& tree,
                               uint32_t team_size, F* shared) {
    const Team team = Team::of(team_size);
    const uint32_t b = team.output, run = tree.levels->count;
    const uint32_t size = b < tree.buckets.count ? tree.buckets.size(b) : 0;
    const uint32_t left = tail_entries_of(size, run);
    const F sum = team_sum(team, left, shared, [&](uint32_t k) {
        return load_split_signed(base, tree.element(b, size, run, k));
    });
    if (left > 0 && team.member == 0) store_split(&tail_sums[tree.tail()[b] / 2], sum);
}
