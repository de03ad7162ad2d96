// Sums of points by teams of split lanes (../../curve/split.cuh), for few sums with low latency.
#pragma once
#include "../../curve/split.cuh"

constexpr uint32_t SUM_THREADS = 128, SUM_GROUPS = SUM_THREADS / SPLIT_LANES;

// A thread's place in a team of `size` groups of four lanes, a power of two up to SUM_GROUPS.
struct Team {
    uint32_t size, member;
    uint32_t output; // index of the sum in the launch

    static FN Team of(uint32_t size) {
        const uint32_t group = blockIdx.x * SUM_GROUPS + threadIdx.x / SPLIT_LANES;
        return {size, group % size, group / size};
    }
};

// Returns to the team's member 0 the sum of at(k), 0 <= k < count: a coordinate of a split point;
// count may be 0. First each member sums on its own, then halves of the team are added. All threads
// of the block take part; `shared` has SUM_THREADS elements, used by this call only.
template <class F, class PointAt>
FN F team_sum(const Team& team, uint32_t count, F* shared, PointAt at) {
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
        const F other = adds ? shared[threadIdx.x + SPLIT_LANES * half] : zero<F>();
        __syncthreads();
        if (__any_sync(ALL_LANES, adds)) sum = split_add(sum, other);
    }
    return sum;
}
