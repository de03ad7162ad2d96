// Shared memory. It is poisoned whenever a block starts, to expose reads of unwritten memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <typeinfo>

namespace cuda_host {

/// Numbers a declaration of static shared memory when the library is loaded. `site` names a type
/// that is local to the declaring function.
uint32_t new_shared_site(const char* site, size_t bytes, size_t align);

/// The running block's memory for a declaration, poisoned on its first use in a block.
void* static_shared(uint32_t site, size_t bytes, size_t align);

/// The running block's dynamic shared memory, 16-byte aligned as CUDA promises.
void* dynamic_shared();

template <typename T, size_t count, typename Site> struct SharedSite {
    static inline const uint32_t number =
        new_shared_site(typeid(Site).name(), sizeof(T) * count, alignof(T));
};

template <typename T, size_t count, typename Site> T* shared_array() {
    const uint32_t site = SharedSite<T, count, Site>::number;
    return static_cast<T*>(static_shared(site, sizeof(T) * count, alignof(T)));
}

} // namespace cuda_host

/// `count` elements of T in static shared memory. The local type makes each declaration distinct.
#define SHARED(T, name, count)                                                                     \
    struct name##_site {};                                                                         \
    T* const name = ::cuda_host::shared_array<T, (count), name##_site>()

#define DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::cuda_host::dynamic_shared())
