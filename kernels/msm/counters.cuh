// Counters in shared memory, and places that are given out by them.
#pragma once
#include "../warp.cuh"

// One more for counters[key] where `live`. No value comes back, which the hardware does at full
// rate even where all lanes mean the same counter.
FN void tally(uint32_t* counters, uint32_t key, bool live) {
    if (live) atomicAdd(counters + key, 1);
}

// A place in counters[key] for each live lane; all lanes of a warp take part. Those that agree with
// the first live one ask together: atomics that return a value are served one after the other on
// one address, so a hot key would cost 32 turns.
FN uint32_t take(uint32_t* counters, uint32_t key, bool live) {
    const int leader = __ffs(int(__ballot_sync(ALL_LANES, live))) - 1;
    const uint32_t leaders_key = __shfl_sync(ALL_LANES, key, leader);
    const bool follows = live && key == leaders_key;
    const uint32_t same = __ballot_sync(ALL_LANES, follows);
    // Nobody agrees: the usual case where keys are many.
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

// shift[i] becomes what to add to places of run i, count(i) long, so that they are in room that
// cursor[i] gives; place(i) is the run's first. Neighbouring lanes ask for neighbouring cursors,
// and a thread for BATCH at a time.
template <int BATCH, class Count, class Place>
FN void reserve(uint32_t* shift, uint32_t* cursor, uint32_t size, Count count, Place place) {
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

// Calls each(i, sum of value(0) .. value(i - 1)) for all i < size, and gives the sum of all. Each
// thread has its own i, a run of neighbours, and `value` is called twice. `partials` is shared
// memory for 32 T; its next use needs a barrier before it.
template <class T, class Value, class Each>
FN T scan_each(uint32_t size, const T& zero, T* partials, Value value, Each each) {
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

// True in all threads of the last of `blocks` blocks to come here; what the others wrote before is
// visible to it, past its own L1 too where it reads with `fresh`. `word` is shared memory.
FN bool is_last(uint32_t* ticket, uint32_t blocks, uint32_t* word) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *word = atomicAdd(ticket, 1);
    __syncthreads();
    if (*word != blocks - 1) return false;
    __threadfence();
    return true;
}
FN uint32_t fresh(const uint32_t* at) { return *static_cast<const volatile uint32_t*>(at); }
