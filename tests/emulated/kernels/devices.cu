// Kernels whose launches exceed the limits of some devices.
#include "cuda_host.hpp"

// At most 32 registers, for 16 blocks of 4 warps.
KERNEL(128, 16) bounded(uint32_t* out) {
    SHARED(uint8_t, tile, 1000);
    tile[threadIdx.x] = uint8_t(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
EXPORT_KERNEL(bounded);

// At most 32 registers, if a multiprocessor holds 2048 threads.
KERNEL(1024, 2) unbounded(uint32_t* out) {
    DYNAMIC_SHARED(uint32_t, tile);
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
EXPORT_KERNEL(unbounded);

// 168 registers, for 3 blocks of 4 warps.
KERNEL(128, 3) large(uint32_t* out) { out[threadIdx.x] = 0; }
EXPORT_KERNEL(large);

// The emulation knows the shared memory of a called function only after the kernel has run.
FN uint32_t helper(uint32_t word) {
    SHARED(uint32_t, kept, 32);
    kept[threadIdx.x] = word;
    return kept[threadIdx.x];
}
KERNEL(32) helping(uint32_t* out) { out[threadIdx.x] = helper(threadIdx.x); }
EXPORT_KERNEL(helping);

// Waits for its predecessor if `wait` is set.
KERNEL(32) follow(uint32_t* out, uint32_t wait) {
    if (wait) await_predecessor();
    out[threadIdx.x] = 7;
}
EXPORT_KERNEL(follow);
