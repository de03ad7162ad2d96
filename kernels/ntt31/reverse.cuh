// Bit reversal of rows of 2^lg_n words, out of place.
#pragma once
#include "carry.cuh"

constexpr uint32_t LG_REVERSED_TILE = 5;

FN uint32_t reversed_bits(uint32_t x, uint32_t bits) { return bits ? __brev(x) >> (32 - bits) : 0; }

// Rows of less than 2^10 words: a thread per word.
FN void reverse_short_rows(const uint32_t* in, uint32_t* out, uint32_t lg_n, uint64_t words) {
    const uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= words) return;
    const uint32_t point = uint32_t(i) & ((1u << lg_n) - 1);
    out[i - point + reversed_bits(point, lg_n)] = in[i];
}

// Rows of at least 2^10 words: a block has the words whose numbers share the bits between the top
// five and the low five, 32 runs of 32 words. Both loads and stores are of runs.
FN void reverse_long_rows(uint32_t (*tile)[33], const uint32_t* in, uint32_t* out, uint32_t lg_n) {
    constexpr uint32_t B = LG_REVERSED_TILE, THREADS = 256;
    const uint32_t lg_middle = lg_n - 2 * B, lane = threadIdx.x & 31;
    const uint64_t row = uint64_t(blockIdx.x) >> lg_middle << lg_n;
    const uint32_t middle = blockIdx.x & ((1u << lg_middle) - 1);
    const uint32_t reversed_middle = reversed_bits(middle, lg_middle);
    for (uint32_t high = threadIdx.x >> B; high < 1 << B; high += THREADS >> B)
        tile[high][lane] = in[row + (uint64_t(high) << (lg_n - B)) + (middle << B | lane)];
    __syncthreads();
    for (uint32_t low = threadIdx.x >> B; low < 1 << B; low += THREADS >> B)
        out[row + (uint64_t(low) << (lg_n - B)) + (reversed_middle << B | lane)] =
            tile[reversed_bits(lane, B)][reversed_bits(low, B)];
}
