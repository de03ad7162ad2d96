// The host's side of cp.async: a copy lands at any time between its issue and the wait for its
// group, so a missing wait and a buffer that is still in use both show under some seed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_host {

/// Issues a copy of 4, 8 or 16 bytes, aligned to as many, into shared memory.
void copy_async(void* to, const void* from, uint32_t bytes);
/// Closes the group of the copies issued since the last call.
void commit_copies();
/// Waits until at most `groups` closed groups of the calling thread are unfinished.
void wait_copies(uint32_t groups);

} // namespace cuda_host

inline void copy16_async(void* shared, const void* global) {
    cuda_host::copy_async(shared, global, 16);
}
inline void copies_commit() { cuda_host::commit_copies(); }
template <int N> void copies_wait() { cuda_host::wait_copies(N); }
