// Device memory and pinned host memory: ranges of host memory with known contents.
#pragma once

#include "state.hpp"

namespace emulated {

struct Allocation {
    Address start;
    size_t bytes, charged; // charged: bytes counted against the device
    int device;
    bool live;        // false while its allocation is queued
    bool free_queued; // cuMemFreeAsync was called
    void* base;       // address from the host's allocator
    size_t base_bytes;
    bool mapped; // by mmap
};

/// All of these require the lock.
int allocate(Device& device, size_t bytes, bool live, Address& out);
/// Poisons the memory and delays its reuse.
void release(Allocation& allocation);
/// The allocation that contains [start, start + bytes), or null.
Allocation* find_allocation(Address start, size_t bytes);
void free_all(int device);

/// Whether [start, start + bytes) is pinned host memory.
bool is_pinned(const void* start, size_t bytes);

/// Whether devices cannot write to this host memory, because it was pinned for reading.
bool is_pinned_for_reading(const void* start);

/// Fails if the range is not live memory that the device may access.
Failure check_range(int device, Address start, size_t bytes, const char* what);
/// Fails if memory adjacent to the allocation was overwritten.
Failure check_edges(const Allocation& allocation);

} // namespace emulated
