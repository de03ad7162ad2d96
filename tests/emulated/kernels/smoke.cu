#include "cuda_host.hpp"
KERNEL(256, 2) add_one(uint32_t* at, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) at[i]++;
}
EXPORT_KERNEL(add_one);
