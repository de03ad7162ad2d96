// Sums of an element per thread of a block.
#pragma once
#include "passes.cuh"

// Returns the sum over a block of THREADS threads, a power of two, to its first thread. `shared`
// has one element per thread; a barrier must precede its next use.
template <uint32_t THREADS> FN Fr block_sum(Fr mine, Quad* shared) {
    const uint32_t t = threadIdx.x;
#pragma unroll 1
    for (uint32_t half = THREADS / 2; half > 0; half /= 2) {
        if (t >= half && t < 2 * half) store_element(shared, t, mine);
        __syncthreads();
        if (t < half) mine = add(mine, load_element(shared, t + half));
    }
    return mine;
}
