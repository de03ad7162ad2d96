// Atomics on 32 and 64-bit words. Real atomics, since blocks run on different OS threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace cuda_host {

/// Replaces `*at` by `change(*at)`; returns the old value.
template <typename T, typename F> T atomic_update(T* at, F change) {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, T(change(old)), false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return old;
}

} // namespace cuda_host

// type_identity_t excludes the second argument from deduction, so that atomicAdd(&u64, 1) compiles.
template <typename T> T atomicAdd(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return old + value; });
}
template <typename T> T atomicSub(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return old - value; });
}
template <typename T> T atomicMax(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return std::max(old, value); });
}
template <typename T> T atomicMin(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return std::min(old, value); });
}
template <typename T> T atomicOr(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return old | value; });
}
template <typename T> T atomicAnd(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return old & value; });
}
template <typename T> T atomicXor(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T old) { return old ^ value; });
}
template <typename T> T atomicExch(T* at, std::type_identity_t<T> value) {
    return cuda_host::atomic_update(at, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
