// Copies and fills. As with the real driver, pinned memory is accessed when the copy runs; pageable
// memory is read before the call returns, and a copy to it has completed when the call returns.
#include "api.hpp"
#include "memory.hpp"

#include <cstring>

using namespace emulated;

namespace {

/// One side of a copy.
struct CopySide {
    Address device = 0; // 0 for host memory
    void* host = nullptr;
    bool pinned = false;
    std::shared_ptr<std::string> staged; // contents of pageable memory at the call
};

Failure check(int device, const CopySide& side, size_t bytes, const char* what) {
    if (side.device) return check_range(device, side.device, bytes, what);
    if (side.pinned && !is_pinned(side.host, bytes)) {
        return {illegal_address, format("%s: pinned memory was freed before the copy", what)};
    }
    return {};
}

void* pointer(const CopySide& side) {
    if (side.device) return reinterpret_cast<void*>(side.device);
    return side.staged ? side.staged->data() : side.host;
}

CopySide host_side(const void* at, size_t bytes) {
    return {0, const_cast<void*>(at), is_pinned(at, bytes), nullptr};
}

int copy(ApiCall& api, const char* what, CopySide to, CopySide from, size_t bytes, void* handle,
         bool waits) {
    const auto stream = find_stream(api, handle);
    if (!stream) return invalid_handle;
    if (bytes == 0) return success;
    for (const CopySide* side : {&to, &from}) {
        const bool known = side->device ? find_allocation(side->device, bytes) : side->host;
        if (!known) return invalid_value;
    }
    if (!to.device && is_pinned_for_reading(to.host)) return invalid_value;
    const bool pageable_from = !from.device && !from.pinned, pageable_to = !to.device && !to.pinned;
    if (waits && stream->capture) return capture_unsupported;
    if (pageable_from && !stream->capture) {
        from.staged = std::make_shared<std::string>(static_cast<const char*>(from.host), bytes);
    }
    StreamOp op;
    op.run = [=, device = stream->device]() -> Failure {
        {
            Lock lock(state().lock);
            for (const CopySide* side : {&to, &from}) {
                if (Failure failure = check(device, *side, bytes, what); failure.code) {
                    return failure;
                }
            }
        }
        std::memmove(pointer(to), pointer(from), bytes);
        return {};
    };
    apply(api.injected, op, [&](int) { return static_cast<uint8_t*>(pointer(to)); });
    if (int code = submit(*stream, std::move(op))) return code;
    if (stream->capture || !(waits || pageable_to)) return success;
    const uint64_t target = stream->submitted;
    return drive(api.lock, *api.device, [&] { return stream->finished >= target; });
}

template <typename T> int fill(const char* what, Address at, T value, size_t count, void* handle) {
    return queue_call(what, "memset", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (count == 0) return success;
        if (at % sizeof(T) != 0 || !find_allocation(at, count * sizeof(T))) return invalid_value;
        StreamOp op;
        op.run = [=, device = stream->device]() -> Failure {
            {
                Lock lock(state().lock);
                Failure failure = check_range(device, at, count * sizeof(T), what);
                if (failure.code) return failure;
            }
            auto* words = reinterpret_cast<T*>(at);
            std::fill(words, words + count, value);
            return {};
        };
        apply(api.injected, op);
        return submit(*stream, std::move(op));
    });
}

int copy_in(const char* what, Address to, const void* from, size_t bytes, void* stream,
            bool waits) {
    return queue_call(what, "copy", [&](ApiCall& api) {
        return copy(api, what, {to, nullptr, false, nullptr}, host_side(from, bytes), bytes, stream,
                    waits);
    });
}

int copy_out(const char* what, void* to, Address from, size_t bytes, void* stream, bool waits) {
    return queue_call(what, "copy", [&](ApiCall& api) {
        return copy(api, what, host_side(to, bytes), {from, nullptr, false, nullptr}, bytes, stream,
                    waits);
    });
}

int copy_within(const char* what, Address to, Address from, size_t bytes, void* stream) {
    return queue_call(what, "copy", [&](ApiCall& api) {
        return copy(api, what, {to, nullptr, false, nullptr}, {from, nullptr, false, nullptr},
                    bytes, stream, false);
    });
}

} // namespace

EMULATED_API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
    return copy_in("cuMemcpyHtoDAsync", to, from, bytes, stream, false);
}
EMULATED_API cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
    return copy_in("cuMemcpyHtoD", to, from, bytes, nullptr, true);
}
EMULATED_API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
    return copy_out("cuMemcpyDtoHAsync", to, from, bytes, stream, false);
}
EMULATED_API cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
    return copy_out("cuMemcpyDtoH", to, from, bytes, nullptr, true);
}
EMULATED_API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
    return copy_within("cuMemcpyDtoDAsync", to, from, bytes, stream);
}
EMULATED_API cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
    return copy_within("cuMemcpyDtoD", to, from, bytes, nullptr);
}

EMULATED_API cuMemcpyPeerAsync(Address to, void* to_context, Address from, void* from_context,
                               size_t bytes, void* stream) {
    return queue_call("cuMemcpyPeerAsync", "copy", [&](ApiCall& api) -> int {
        // Needs no peer access: the driver copies through the host if necessary.
        const auto* target = static_cast<const Device*>(to_context);
        const auto* source = static_cast<const Device*>(from_context);
        const Allocation* a = find_allocation(to, bytes);
        const Allocation* b = find_allocation(from, bytes);
        if (!a || !b || a->device != target->index || b->device != source->index) {
            return invalid_value;
        }
        const auto queue = find_stream(api, stream);
        if (!queue) return invalid_handle;
        StreamOp op;
        op.run = [=]() -> Failure {
            {
                Lock lock(state().lock);
                for (auto [side, device] : {std::pair{to, target->index}, {from, source->index}}) {
                    Failure failure = check_range(device, side, bytes, "cuMemcpyPeerAsync");
                    if (failure.code) return failure;
                }
            }
            std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
            return {};
        };
        apply(api.injected, op);
        return submit(*queue, std::move(op));
    });
}

EMULATED_API cuMemsetD8Async(Address at, unsigned char value, size_t count, void* stream) {
    return fill("cuMemsetD8Async", at, value, count, stream);
}
EMULATED_API cuMemsetD16Async(Address at, unsigned short value, size_t count, void* stream) {
    return fill("cuMemsetD16Async", at, value, count, stream);
}
EMULATED_API cuMemsetD32Async(Address at, unsigned value, size_t count, void* stream) {
    return fill("cuMemsetD32Async", at, value, count, stream);
}
EMULATED_API cuMemsetD8_v2(Address at, unsigned char value, size_t count) {
    return fill("cuMemsetD8", at, value, count, nullptr);
}
EMULATED_API cuMemsetD32_v2(Address at, unsigned value, size_t count) {
    return fill("cuMemsetD32", at, value, count, nullptr);
}
