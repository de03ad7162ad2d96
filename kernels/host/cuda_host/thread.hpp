// What a thread knows of itself, and how it waits for others.
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

using Where = std::source_location;

/// Index of the running thread in its block, x fastest: lane = index % 32.
inline uint32_t thread_index() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/// Waits for every thread of the block that has not returned.
void wait_for_block(Where where);

enum class Exchange : uint8_t { none, value, ballot };

/// What a lane brings to the other lanes of `mask`, and what it asks for: nothing, the value of lane
/// `source`, or the lanes whose value, a word, is not 0. Both lie on its own stack.
struct Request {
    Exchange what = Exchange::none;
    uint32_t mask, source = 0, bytes = 0;
    const void* value = nullptr;
    void* result = nullptr;
};

/// Waits for the lanes of the mask, then gives each what it asked for.
void wait_for_warp(const Request& request, Where where);

/// In launches that may start early: says that what came before has ended.
void await_predecessor();

/// Ends the launch as a failed assertion (`CUDA_ERROR_ASSERT`); outside a kernel, the process.
[[noreturn]] void assertion_failed(const char* condition, Where where);

} // namespace cuda_host

inline void __syncthreads(cuda_host::Where where = cuda_host::Where::current()) {
    cuda_host::wait_for_block(where);
}

inline void __syncwarp(uint32_t mask = ~0u, cuda_host::Where where = cuda_host::Where::current()) {
    cuda_host::wait_for_warp({.mask = mask}, where);
}

inline void await_predecessor() { cuda_host::await_predecessor(); }

/// Blocks run on different OS threads, so fences are real ones.
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
