// Counters in shared memory, and places allocated from them.
#pragma once
#include "../warp.cuh"

// Adds one to counters[key] if `live`. No value is returned: such atomics run at full rate in
// hardware even if all lanes use the same counter.
FN void count_key(uint32_t* counters, uint32_t key, bool live) {
    if (live) atomicAdd(counters + key, 1);
}

// Allocates a place from counters[key] for each live lane; all lanes of a warp take part. Lanes
// with the key of the first live lane share one atomic: atomics that return a value are serialised
// per address, so a hot key would otherwise cost 32 of them.
FN uint32_t take_place(uint32_t* counters, uint32_t key, bool live) {
    const int leader = __ffs(int(__ballot_sync(ALL_LANES, live))) - 1;
    const uint32_t leaders_key = __shfl_sync(ALL_LANES, key, leader);
    const bool follows = live && key == leaders_key;
    const uint32_t same = __ballot_sync(ALL_LANES, follows);
    // No other lane agrees: the usual case for many keys.
    if ((same & (same - 1)) == 0) return live ? atomicAdd(counters + key, 1) : 0;
    const bool leads = int(lane_index()) == leader;
    uint32_t place = 0;
    if (live && (leads || !follows)) {
        place = atomicAdd(counters + key, leads ? uint32_t(__popc(same)) : 1);
    }
    const uint32_t first = __shfl_sync(ALL_LANES, place, leader);
    const uint32_t before = uint32_t(__popc(same & ((1u << lane_index()) - 1)));
    return follows ? first + before : place;
}

// Sets shift[i] to the offset that moves the places of run i, of length count(i) from place(i) on,
// into space allocated from cursor[i]. Adjacent lanes use adjacent cursors, and each thread has
// BATCH atomics in flight.
template <int BATCH, class CountOf, class PlaceOf>
FN void reserve(uint32_t* shift, uint32_t* cursor, uint32_t size, CountOf count, PlaceOf place) {
#pragma unroll 1
    for (uint32_t base = threadIdx.x; base < size; base += BATCH * blockDim.x) {
        uint32_t counts[BATCH], got[BATCH];
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const uint32_t i = base + u * blockDim.x;
            counts[u] = i < size ? count(i) : 0;
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            if (counts[u]) got[u] = atomicAdd(cursor + base + u * blockDim.x, counts[u]);
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const uint32_t i = base + u * blockDim.x;
            if (counts[u]) shift[i] = got[u] - place(i);
        }
    }
}

// Calls each(i, sum of value(0) .. value(i - 1)) for all i < size, and returns the total. Each
// thread handles a contiguous run of i, and calls `value` twice. `partials` is shared memory for 32
// T; a barrier must precede its next use.
template <class T, class ValueOf, class Visit>
FN T for_each_prefix_sum(uint32_t size, const T& zero, T* partials, ValueOf value, Visit each) {
    const auto sum = [](const T& a, const T& b) { return a + b; };
    const uint32_t share = (size + blockDim.x - 1) / blockDim.x;
    const uint32_t begin = threadIdx.x * share;
    const uint32_t end = begin + share < size ? begin + share : size;
    T mine = zero, total = zero;
#pragma unroll 1 // runs are short
    for (uint32_t i = begin; i < end; i++) mine = mine + value(i);
    T before = block_scan(mine, zero, partials, total, sum);
#pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        const T now = value(i);
        each(i, before);
        before = before + now;
    }
    return total;
}

// Returns true in all threads of the last of `blocks` blocks to arrive. Writes of the other blocks
// are then visible to it, with `load_volatile` also past its own L1 cache. `word` is shared memory.
FN bool is_last_block(uint32_t* ticket, uint32_t blocks, uint32_t* word) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *word = atomicAdd(ticket, 1);
    __syncthreads();
    if (*word != blocks - 1) return false;
    __threadfence();
    return true;
}
FN uint32_t load_volatile(const uint32_t* at) { return *static_cast<const volatile uint32_t*>(at); }
