// Allocation of device memory, immediate or stream-ordered.
#include "api.hpp"
#include "memory.hpp"

using namespace emulated;

namespace {

bool idle(const Device& device) {
    for (const auto& stream : device.streams) {
        if (!stream->queue.empty()) return false;
    }
    return true;
}

/// Allocates; if memory is short, runs queued work first, as the device would: it may free some.
int allocate_with_room(ApiCall& api, size_t bytes, bool live, Address& out) {
    const int first = allocate(*api.device, bytes, live, out);
    if (first != out_of_memory) return first;
    while (!idle(*api.device) && (state().running || step(api.lock))) {
        if (state().running) state().changed.wait(api.lock);
    }
    if (api.device->sticky) return api.device->sticky;
    return allocate(*api.device, bytes, live, out);
}

} // namespace

EMULATED_API cuMemAlloc_v2(Address* out, size_t bytes) {
    return call("cuMemAlloc", "allocation", false, nullptr, [&](ApiCall& api) -> int {
        if (bytes == 0) return invalid_value;
        if (int refused = refuse_while_capturing()) return refused;
        return allocate_with_room(api, bytes, true, *out);
    });
}

EMULATED_API cuMemFree_v2(Address start) {
    return call("cuMemFree", [&](ApiCall&) -> int {
        if (start == 0) return success;
        if (int refused = refuse_while_capturing()) return refused;
        Allocation* found = find_allocation(start, 0);
        if (!found || found->start != start || found->free_queued) return invalid_value;
        // Queued work that still uses the memory fails when it runs.
        release(*found);
        return success;
    });
}

EMULATED_API cuMemAllocAsync(Address* out, size_t bytes, void* handle) {
    return call("cuMemAllocAsync", "allocation", false, nullptr, [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (stream->capture) return capture_unsupported;
        if (bytes == 0) return *out = 0, success;
        if (int code = allocate_with_room(api, bytes, false, *out)) return code;
        StreamOp op;
        op.run = [start = *out]() -> Failure {
            Lock lock(state().lock);
            if (Allocation* found = find_allocation(start, 0)) found->live = true;
            return {};
        };
        return submit(*stream, std::move(op));
    });
}

EMULATED_API cuMemAllocFromPoolAsync(Address* out, size_t bytes, void*, void* stream) {
    return cuMemAllocAsync(out, bytes, stream);
}

EMULATED_API cuMemFreeAsync(Address start, void* handle) {
    return call("cuMemFreeAsync", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (stream->capture) return capture_unsupported;
        if (start == 0) return success;
        Allocation* found = find_allocation(start, 0);
        if (!found || found->start != start || found->free_queued) return invalid_value;
        found->free_queued = true;
        StreamOp op;
        op.run = [start]() -> Failure {
            Lock lock(state().lock);
            if (Allocation* found = find_allocation(start, 0)) release(*found);
            return {};
        };
        return submit(*stream, std::move(op));
    });
}

EMULATED_API cuMemGetInfo_v2(size_t* free, size_t* total) {
    return call("cuMemGetInfo", [&](ApiCall& api) -> int {
        *total = api.device->bytes_total;
        *free = api.device->bytes_total - api.device->bytes_used;
        return success;
    });
}

// Every device has only its default pool, which caches no memory.

EMULATED_API cuDeviceGetDefaultMemPool(void** pool, int device) {
    return call("cuDeviceGetDefaultMemPool", [&](ApiCall&) -> int {
        if (device < 0 || size_t(device) >= state().devices.size()) return invalid_device;
        *pool = &state().devices[size_t(device)];
        return success;
    });
}

EMULATED_API cuDeviceGetMemPool(void** pool, int device) {
    return cuDeviceGetDefaultMemPool(pool, device);
}

EMULATED_API cuMemPoolTrimTo(void*, size_t) {
    return call("cuMemPoolTrimTo", [&](ApiCall&) -> int { return success; });
}

EMULATED_API cuMemPoolSetAttribute(void*, int, void*) {
    return call("cuMemPoolSetAttribute", [&](ApiCall&) -> int { return success; });
}

EMULATED_API cuMemPoolGetAttribute(void* pool, int attribute, void* out) {
    return call("cuMemPoolGetAttribute", [&](ApiCall&) -> int {
        const auto* device = static_cast<const Device*>(pool);
        // 5 to 8: bytes reserved and used, current and maximum; 1 to 3: 32-bit flags; 4: the
        // release threshold.
        if (attribute >= 1 && attribute <= 3) *static_cast<int*>(out) = 1;
        else if (attribute == 4) *static_cast<uint64_t*>(out) = 0;
        else if (attribute <= 8) *static_cast<uint64_t*>(out) = device->bytes_used;
        else return invalid_value;
        return success;
    });
}
