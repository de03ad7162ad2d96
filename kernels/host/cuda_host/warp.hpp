// Shuffles and votes. `mask` must include the calling lane, and all its lanes must call the same
// function; anything else fails the launch.
#pragma once

#include <type_traits>

#include "thread.hpp"

namespace cuda_host {

inline uint32_t lane() { return thread_index() % 32; }

/// The value of lane `source` (0 to 31) of this warp, or poison if it is not in `mask`.
///
/// CUDA shuffles words of 4 and 8 bytes. Larger values take one shuffle per word there but a single
/// exchange here, which is that much faster.
template <typename T>
T shuffle(uint32_t mask, const T& value, uint32_t source, CodeLocation where) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0, "shuffles move words");
    T result;
    const ExchangeRequest request = {WarpExchange::value, mask, source, sizeof(T), &value, &result};
    wait_for_warp(request, where);
    return result;
}

/// First lane of the calling lane's group of `width` lanes.
inline uint32_t group(int width) { return lane() & ~uint32_t(width - 1); }

} // namespace cuda_host

template <typename T>
T __shfl_sync(uint32_t mask, const T& value, int source, int width = 32,
              cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const uint32_t from = cuda_host::group(width) + (uint32_t(source) & uint32_t(width - 1));
    return cuda_host::shuffle(mask, value, from, where);
}

template <typename T>
T __shfl_down_sync(uint32_t mask, const T& value, uint32_t delta, int width = 32,
                   cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const uint32_t lane = cuda_host::lane(), to = lane + delta;
    const bool inside = to < cuda_host::group(width) + uint32_t(width);
    return cuda_host::shuffle(mask, value, inside ? to : lane, where);
}

template <typename T>
T __shfl_up_sync(uint32_t mask, const T& value, uint32_t delta, int width = 32,
                 cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const uint32_t lane = cuda_host::lane();
    const bool inside = lane >= cuda_host::group(width) + delta;
    return cuda_host::shuffle(mask, value, inside ? lane - delta : lane, where);
}

template <typename T>
T __shfl_xor_sync(uint32_t mask, const T& value, int bits, int width = 32,
                  cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const uint32_t lane = cuda_host::lane(), to = lane ^ uint32_t(bits);
    // As on the device: lanes of lower groups may be read, lanes of higher groups may not.
    const bool inside = to < cuda_host::group(width) + uint32_t(width);
    return cuda_host::shuffle(mask, value, inside ? to : lane, where);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate,
                              cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const uint32_t vote = predicate != 0;
    uint32_t votes = 0;
    cuda_host::wait_for_warp({cuda_host::WarpExchange::ballot, mask, 0, 4, &vote, &votes}, where);
    return votes;
}

inline int __any_sync(uint32_t mask, int predicate,
                      cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    return __ballot_sync(mask, predicate, where) != 0;
}

inline int __all_sync(uint32_t mask, int predicate,
                      cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    return __ballot_sync(mask, predicate == 0, where) == 0;
}
