// A thread's built-in variables, and how it waits for other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

struct uint3 {
    uint32_t x, y, z;
};
struct dim3 {
    uint32_t x = 1, y = 1, z = 1;
};

inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
constexpr int warpSize = 32;

namespace cuda_host {

using CodeLocation = std::source_location;

/// Index of the running thread in its block, x fastest: lane = index % 32.
inline uint32_t thread_index() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/// Waits for all threads of the block that have not returned.
void wait_for_block(CodeLocation where);

enum class WarpExchange : uint8_t { none, value, ballot, all };

/// A lane's part in an exchange with the lanes of `mask`: it asks for nothing, for the value of
/// lane `source`, for the lanes with a nonzero word, or for the values of all 32 lanes. Both
/// pointers are to the lane's own stack.
struct ExchangeRequest {
    WarpExchange what = WarpExchange::none;
    uint32_t mask, source = 0, bytes = 0;
    const void* value = nullptr;
    void* result = nullptr;
};

/// Waits for the lanes of the mask, then gives each its result.
void wait_for_warp(const ExchangeRequest& request, CodeLocation where);

/// Programmatic dependent launch: records that the thread waits for the preceding work.
void await_predecessor();

/// Fails the launch with `CUDA_ERROR_ASSERT`; outside a kernel, aborts the process.
[[noreturn]] void assertion_failed(const char* condition, CodeLocation where);

} // namespace cuda_host

inline void __syncthreads(cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    cuda_host::wait_for_block(where);
}

inline void __syncwarp(uint32_t mask = ~0u,
                       cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    cuda_host::wait_for_warp({.mask = mask}, where);
}

inline void await_predecessor() { cuda_host::await_predecessor(); }
inline void await_whole_predecessor() { cuda_host::await_predecessor(); }

/// Real fences, since blocks run on different OS threads.
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
