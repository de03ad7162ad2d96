// Device memory and pinned host memory: ranges of the host's own, of known state.
#pragma once

#include "state.hpp"

namespace emulated {

struct Allocation {
    Address start;
    size_t bytes, charged; // charged: as counted against the device
    int device;
    bool live;        // false: its allocation is still queued
    bool free_queued; // cuMemFreeAsync was called
    void* base;       // what the host's allocator gave
    size_t base_bytes;
    bool mapped; // by mmap
};

/// All with the lock held.
int allocate(Device& device, size_t bytes, bool live, Address& out);
/// Poisons the memory and keeps it from reuse for a while.
void release(Allocation& allocation);
/// The allocation that holds [start, start + bytes), or null.
Allocation* find_allocation(Address start, size_t bytes);
void free_all(int device);

/// Whether [start, start + bytes) is pinned host memory.
bool is_pinned(const void* start, size_t bytes);

/// Failure where the range is not live memory that the device may use.
Failure check_range(int device, Address start, size_t bytes, const char* what);
/// Failure where somebody wrote around the allocation.
Failure check_edges(const Allocation& allocation);

} // namespace emulated
