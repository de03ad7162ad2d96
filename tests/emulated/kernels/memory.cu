// Kernels that read and write device memory, some of them out of bounds.
#include "cuda_host.hpp"

// at[i] = at[i] * factor + i
KERNEL(256) scale(uint32_t* at, uint32_t n, uint32_t factor) {
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        at[i] = at[i] * factor + i;
    }
}
EXPORT_KERNEL(scale);

KERNEL(32) store(uint32_t* at, int64_t index, uint32_t value) { at[index] = value; }
EXPORT_KERNEL(store);

// to[0] = from[0] + 1
KERNEL(1) next(uint32_t* to, const uint32_t* from) { to[0] = from[0] + 1; }
EXPORT_KERNEL(next);

// at[0] = the upper half of the 64-bit word at at + words, which is misaligned if `words` is odd.
KERNEL(1) load_wide(uint32_t* at, uint32_t words) {
    at[0] = uint32_t(*reinterpret_cast<const uint64_t*>(at + words) >> 32);
}
EXPORT_KERNEL(load_wide);
