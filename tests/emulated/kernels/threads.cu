// Kernels, right and wrong ones, that test the emulation of threads.
#include "cuda_host.hpp"

struct alignas(16) uint4_words {
    uint32_t word[4];
};

// out[i] = 2 i, reversed twice through shared memory. Without `barrier`, there is a race.
KERNEL(256, 1) reverse(uint32_t* out, uint32_t barrier) {
    SHARED(uint32_t, tile, 256);
    const uint32_t t = threadIdx.x, n = blockDim.x;
    tile[t] = t;
    __syncthreads();
    const uint32_t mirrored = tile[n - 1 - t];
    if (barrier) __syncthreads();
    tile[t] = mirrored;
    __syncthreads();
    out[blockIdx.x * n + t] = tile[n - 1 - t] + t;
}
EXPORT_KERNEL(reverse);

KERNEL(64) diverge(uint32_t* out, uint32_t how) {
    const uint32_t t = threadIdx.x;
    if (how == 0) {
        if (t < 16) __syncwarp();
        else __syncthreads();
    }
    if (how == 1) {
        if (t < 32) __syncthreads();
        else __syncthreads();
    }
    if (how == 2 && t % 2) __syncwarp(0x55555555);
    if (how == 3 && t == 5) return;
    if (how == 3) __syncwarp();
    // Threads that returned do not block a barrier.
    if (how == 4 && t >= 32) return;
    __syncthreads();
    out[t] = 1;
}
EXPORT_KERNEL(diverge);

KERNEL(64) read_poison(uint32_t* out) {
    SHARED(uint32_t, fixed, 64);
    DYNAMIC_SHARED(uint32_t, chosen);
    const uint32_t t = threadIdx.x;
    out[blockIdx.x * 64 + t] = fixed[t];
    out[blockIdx.x * 64 + t] ^= chosen[t] ^ 0xa5a5a5a5;
    __syncthreads();
    fixed[t] = chosen[t] = 0;
}
EXPORT_KERNEL(read_poison);

KERNEL(64) much_shared(uint32_t* out) {
    SHARED(uint64_t, fixed, 5000);
    fixed[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = uint32_t(fixed[threadIdx.x]);
}
EXPORT_KERNEL(much_shared);

// Warp sums by shuffles down and across, prefix sums by shuffles up, and odd lanes by a vote.
KERNEL(256) warps(const uint32_t* in, uint32_t* sums, uint32_t* prefixes, uint32_t* votes) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    uint32_t down = in[i], across = in[i], up = in[i];
    for (uint32_t d = 16; d > 0; d /= 2) {
        down += __shfl_down_sync(~0u, down, d);
        across += __shfl_xor_sync(~0u, across, int(d));
    }
    for (uint32_t d = 1; d < 32; d *= 2) {
        const uint32_t before = __shfl_up_sync(~0u, up, d);
        if (lane >= d) up += before;
    }
    down = __shfl_sync(~0u, down, 0);
    sums[i] = down == across ? down : ~0u;
    prefixes[i] = up;
    votes[i] = __ballot_sync(~0u, in[i] & 1);
    // Shuffles and votes of half warps.
    uint64_t half = in[i];
    const uint32_t mask = lane < 16 ? 0xffffu : 0xffff0000u;
    half = __shfl_sync(mask, half, 0, 16);
    if (half != in[i - lane % 16] || !__all_sync(mask, 1) || __any_sync(mask, 0)) sums[i] = ~0u;
}
EXPORT_KERNEL(warps);

// Sums, maximum and bits over all blocks, by each kind of atomic.
KERNEL(128) atomics(uint32_t* sum, unsigned long long* sum64, uint32_t* most, uint32_t* bits) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, i);
    atomicAdd(sum64, 1);
    atomicMax(most, i);
    atomicOr(bits, 1u << i % 32);
    uint32_t seen = sum[1], before;
    do before = seen, seen = atomicCAS(&sum[1], before, before + 2);
    while (seen != before);
}
EXPORT_KERNEL(atomics);

// Copies a tile through shared memory asynchronously. Without `wait`, it is read too early.
KERNEL(32) tiles(const uint32_t* in, uint32_t* out, uint32_t wait) {
    SHARED(uint4_words, tile, 32);
    const uint32_t t = threadIdx.x;
    copy16_async(&tile[t], in + 4 * t);
    copies_commit();
    if (wait) copies_wait<0>();
    __syncthreads();
    for (int w = 0; w < 4; w++) out[4 * t + w] = tile[31 - t].word[w];
}
EXPORT_KERNEL(tiles);

KERNEL(32) assert_below(uint32_t limit) { ASSERT_RANGE(threadIdx.x < limit); }
EXPORT_KERNEL(assert_below);

KERNEL(32) overrun(uint32_t* out, uint32_t beyond) {
    DYNAMIC_SHARED(uint32_t, tile);
    tile[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 7) tile[beyond] = 2;
    __syncthreads();
    out[0] = tile[0];
}
EXPORT_KERNEL(overrun);
