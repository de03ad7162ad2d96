// Shared memory. It holds poison whenever a block starts, so what nobody wrote shows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_host {

/// Numbers one declaration of static shared memory.
uint32_t new_shared_site();

/// The running block's memory of that declaration: poisoned on its first use in a block.
void* static_shared(uint32_t site, size_t bytes, size_t align);

/// The running block's dynamic shared memory, aligned to 16 bytes as CUDA promises.
void* dynamic_shared();

template <typename T, size_t count, typename Site> T* shared_array() {
    static const uint32_t site = new_shared_site();
    return static_cast<T*>(static_shared(site, sizeof(T) * count, alignof(T)));
}

} // namespace cuda_host

/// `count` elements of T in static shared memory; the local type makes each declaration its own.
#define SHARED(T, name, count)                                                                     \
    struct name##_site {};                                                                         \
    T* const name = ::cuda_host::shared_array<T, (count), name##_site>()

#define DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::cuda_host::dynamic_shared())
