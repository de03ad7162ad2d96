// Sums of points by teams of split lanes (../../curve/split.cuh): few sums, soon done.
#pragma once
#include "../../curve/split.cuh"

constexpr uint32_t SUM_THREADS = 128, SUM_GROUPS = SUM_THREADS / SPLIT;

// Which of the launch's sums a thread works on. A team is `team` groups of four lanes, a power of
// two up to SUM_GROUPS.
struct Team {
    uint32_t size, member;
    uint32_t output; // of the launch

    static FN Team of(uint32_t size) {
        const uint32_t group = blockIdx.x * SUM_GROUPS + threadIdx.x / SPLIT;
        return {size, group % size, group / size};
    }
};

// The team's member 0 gets the sum of at(k), 0 <= k < count: a split point's coordinate, and any
// count, 0 too. First each member on its own, then halves of the team. All threads of the block
// take part; `shared` is SUM_THREADS elements, for this call alone.
template <class F, class At>
FN F team_sum(const Team& team, uint32_t count, F* shared, At at) {
    const auto point = [&](uint32_t k) { return k < count ? at(k) : zero<F>(); };
    uint32_t k = team.member;
    F sum = point(k);
#pragma unroll 1
    while (__any_sync(ALL_LANES, (k += team.size) < count)) sum = split_add(sum, point(k));
#pragma unroll 1
    for (uint32_t half = team.size / 2; half > 0; half /= 2) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        const bool adds = team.member < half && team.member + half < count;
        const F other = adds ? shared[threadIdx.x + SPLIT * half] : zero<F>();
        __syncthreads();
        if (__any_sync(ALL_LANES, adds)) sum = split_add(sum, other);
    }
    return sum;
}
