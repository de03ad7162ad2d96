#include "memory.hpp"

#include "api.hpp"
#include "presets.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#if CUDA_HOST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace emulated {

namespace {

constexpr int fresh = 0xee, freed = 0xdd; // poison
constexpr size_t align = 256;             // as cuMemAlloc promises
// Guard bytes on either side. The sanitizer has its own.
constexpr size_t edge = CUDA_HOST_ASAN ? 0 : 256;
constexpr size_t mapped_from = 32 << 20, window = 4 << 20;
constexpr size_t quarantine_max = 64 << 20;

std::map<Address, Allocation>& allocations() {
    static auto* map = new std::map<Address, Allocation>;
    return *map;
}
/// Pinned memory. Devices cannot write to what was pinned for reading.
struct Pinned {
    size_t bytes;
    bool is_read;
};

std::map<uintptr_t, Pinned>& pinned() {
    static auto* map = new std::map<uintptr_t, Pinned>;
    return *map;
}

/// The pinned memory that holds these bytes, or null.
const Pinned* find_pinned(const void* start, size_t bytes) {
    auto after = pinned().upper_bound(reinterpret_cast<uintptr_t>(start));
    if (after == pinned().begin()) return nullptr;
    const auto& [from, found] = *std::prev(after);
    const size_t offset = reinterpret_cast<uintptr_t>(start) - from;
    return offset <= found.bytes && bytes <= found.bytes - offset ? &found : nullptr;
}

/// Whether this process may write to the page at `start`.
bool is_writable(const void* start) {
    std::ifstream maps("/proc/self/maps");
    const auto address = reinterpret_cast<uintptr_t>(start);
    for (std::string line; std::getline(maps, line);) {
        unsigned long from = 0, to = 0;
        char rights[5] = {};
        if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, rights) != 3) continue;
        if (from <= address && address < to) return rights[1] == 'w';
    }
    return false;
}

/// Freed memory that is not released yet, oldest first.
struct Quarantine {
    std::deque<std::pair<void*, size_t>> held;
    size_t bytes = 0;

    void take(void* base, size_t size) {
        std::memset(base, freed, size);
#if CUDA_HOST_ASAN
        ASAN_POISON_MEMORY_REGION(base, size);
#endif
        held.emplace_back(base, size);
        bytes += size;
        while (bytes > quarantine_max) {
            auto [oldest, oldest_size] = held.front();
#if CUDA_HOST_ASAN
            ASAN_UNPOISON_MEMORY_REGION(oldest, oldest_size);
#endif
            std::free(oldest);
            bytes -= oldest_size;
            held.pop_front();
        }
    }
};

/// Poisoned pages that use memory only once written: maps one window of poison repeatedly.
void* map_poison(size_t bytes) {
    static const int file = [] {
        const int fd = memfd_create("emulated-device-poison", MFD_CLOEXEC);
        const std::string poison(window, char(fresh));
        if (fd < 0 || write(fd, poison.data(), window) != ssize_t(window)) return -1;
        return fd;
    }();
    if (file < 0) return nullptr;
    const int flags = MAP_PRIVATE | MAP_NORESERVE;
    void* base = mmap(nullptr, bytes, PROT_NONE, flags | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    for (size_t at = 0; at < bytes; at += window) {
        void* to = static_cast<char*>(base) + at;
        if (mmap(to, std::min(window, bytes - at), PROT_READ | PROT_WRITE, flags | MAP_FIXED, file,
                 0) == MAP_FAILED) {
            munmap(base, bytes);
            return nullptr;
        }
    }
    return base;
}

} // namespace

int allocate(Device& device, size_t bytes, bool live, Address& out) {
    // The device's allocator has a granularity of 512 bytes.
    const size_t charged = (bytes + 511) / 512 * 512;
    if (charged > device.bytes_total - device.bytes_used) return out_of_memory;
    const size_t base_bytes = edge + bytes + edge;
    Allocation made{0, bytes, charged, device.index, live, false, nullptr, base_bytes, false};
    if (!CUDA_HOST_ASAN && bytes >= mapped_from) {
        made.base_bytes = (made.base_bytes + window - 1) / window * window;
        made.base = map_poison(made.base_bytes);
        made.mapped = made.base != nullptr;
    }
    if (!made.base) {
        if (posix_memalign(&made.base, align, made.base_bytes) != 0) return out_of_memory;
        std::memset(made.base, fresh, made.base_bytes);
    }
    made.start = out = reinterpret_cast<Address>(made.base) + edge;
    device.bytes_used += charged;
    allocations().emplace(out, made);
    return success;
}

void release(Allocation& gone) {
    const Allocation allocation = gone;
    state().devices[size_t(allocation.device)].bytes_used -= allocation.charged;
    allocations().erase(allocation.start);
    static auto* quarantine = new Quarantine;
    if (allocation.mapped) munmap(allocation.base, allocation.base_bytes);
    else quarantine->take(allocation.base, allocation.base_bytes);
}

Allocation* find_allocation(Address start, size_t bytes) {
    auto after = allocations().upper_bound(start);
    if (after == allocations().begin()) return nullptr;
    Allocation& found = std::prev(after)->second;
    const Address offset = start - found.start;
    return offset <= found.bytes && bytes <= found.bytes - offset ? &found : nullptr;
}

void free_all(int device) {
    auto& all = allocations();
    for (auto at = all.begin(); at != all.end();) {
        Allocation& allocation = at->second;
        ++at;
        if (allocation.device == device) release(allocation);
    }
}

bool is_pinned(const void* start, size_t bytes) { return find_pinned(start, bytes) != nullptr; }

bool is_pinned_for_reading(const void* start) {
    const Pinned* found = find_pinned(start, 1);
    return found && found->is_read;
}

Failure check_range(int device, Address start, size_t bytes, const char* what) {
    const Allocation* found = find_allocation(start, bytes);
    if (!found || !found->live) {
        const char* why = found ? "is not allocated yet" : "is not allocated";
        return {illegal_address, format("%s: device memory %#llx, %zu bytes, %s", what, start,
                                        bytes, why)};
    }
    const uint32_t peers = state().devices[size_t(device)].peers | 1u << device;
    if ((peers >> found->device & 1) == 0) {
        return {illegal_address, format("%s: memory of device %d is used on device %d without "
                                        "peer access", what, found->device, device)};
    }
    return {};
}

Failure check_edges(const Allocation& a) {
    const auto* start = reinterpret_cast<const unsigned char*>(a.start);
    for (size_t i = 0; i < edge; i++) {
        if (start[a.bytes + i] != fresh) {
            return {illegal_address,
                    format("wrote %zu bytes past the end of an allocation of %zu", i, a.bytes)};
        }
        if (start[-1 - ptrdiff_t(i)] != fresh) {
            return {illegal_address, format("wrote %zu bytes before an allocation", i + 1)};
        }
    }
    return {};
}

} // namespace emulated

using namespace emulated;

EMULATED_API cuMemHostAlloc(void** out, size_t bytes, unsigned) {
    return call("cuMemHostAlloc", "pinned", false, nullptr, [&](ApiCall&) -> int {
        if (bytes == 0) return invalid_value;
        if (posix_memalign(out, 4096, bytes) != 0) return out_of_memory;
        std::memset(*out, fresh, bytes);
        pinned()[reinterpret_cast<uintptr_t>(*out)] = {bytes, false};
        return success;
    });
}

EMULATED_API cuMemAllocHost_v2(void** out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

EMULATED_API cuMemFreeHost(void* start) {
    return call("cuMemFreeHost", [&](ApiCall&) -> int {
        if (pinned().erase(reinterpret_cast<uintptr_t>(start)) == 0) return invalid_value;
        std::free(start);
        return success;
    });
}

EMULATED_API cuMemHostRegister_v2(void* start, size_t bytes, unsigned flags) {
    return call("cuMemHostRegister", "pinned", false, nullptr, [&](ApiCall&) -> int {
        if (bytes == 0) return invalid_value;
        const bool is_read = flags & 8; // CU_MEMHOSTREGISTER_READ_ONLY
        if (is_read && !pins_read_only()) return not_supported;
        if (!is_read && !is_writable(start)) return invalid_value;
        const Pinned range{bytes, is_read};
        const bool fresh_range = pinned().emplace(reinterpret_cast<uintptr_t>(start), range).second;
        return fresh_range ? success : 712; // already registered
    });
}

EMULATED_API cuMemHostUnregister(void* start) {
    return call("cuMemHostUnregister", [&](ApiCall&) -> int {
        const bool known = pinned().erase(reinterpret_cast<uintptr_t>(start)) != 0;
        return known ? success : 713; // not registered
    });
}

EMULATED_API cuMemHostGetDevicePointer_v2(Address* out, void* start, unsigned) {
    return call("cuMemHostGetDevicePointer", [&](ApiCall&) -> int {
        *out = reinterpret_cast<Address>(start);
        return is_pinned(start, 1) ? success : invalid_value;
    });
}
