// Emulates cp.async: a copy completes at any time between its issue and the wait for its group. So
// some seed exposes a missing wait, or a buffer that is overwritten while in use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_host {

/// Issues a copy of 4, 8 or 16 bytes into shared memory; both addresses are aligned to the size.
void copy_async(void* to, const void* from, uint32_t bytes);
/// Closes the group of copies issued since the last call.
void commit_copies();
/// Waits until at most `groups` closed groups of the calling thread are unfinished.
void wait_copies(uint32_t groups);

} // namespace cuda_host

inline void copy16_async(void* shared, const void* global) {
    cuda_host::copy_async(shared, global, 16);
}
inline void copies_commit() { cuda_host::commit_copies(); }
template <int N> void copies_wait() { cuda_host::wait_copies(N); }
