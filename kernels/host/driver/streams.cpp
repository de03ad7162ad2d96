// Streams and events.
#include "api.hpp"

#include <algorithm>

namespace emulated {

namespace {

std::shared_ptr<Stream> make_stream(Device& device, Handle handle, bool blocking) {
    auto stream = std::make_shared<Stream>();
    stream->handle = handle, stream->device = device.index, stream->blocking = blocking;
    stream->urgency = state().random.next();
    device.streams.push_back(stream);
    return stream;
}

} // namespace

std::shared_ptr<Stream> find_stream(ApiCall& api, void* handle) {
    const auto value = reinterpret_cast<Handle>(handle);
    Device& device = *api.device;
    if (!device.legacy) device.legacy = make_stream(device, 0, false);
    if (value <= 1) return device.legacy;
    if (value == 2) {
        auto& own = device.per_thread[this_thread()];
        if (!own) own = make_stream(device, 0, true);
        return own;
    }
    const auto found = state().streams.find(value);
    if (found == state().streams.end() || found->second->device != device.index) return nullptr;
    return found->second;
}

namespace {

std::shared_ptr<Event> find_event(void* handle) {
    const auto found = state().events.find(reinterpret_cast<Handle>(handle));
    return found == state().events.end() ? nullptr : found->second;
}

/// Under a seed, a poll makes progress only sometimes.
void poll(ApiCall& api) {
    DriverState& s = state();
    if (!s.running && (s.seed == 0 || s.random.below(2) == 0)) step(api.lock);
}

int record(ApiCall& api, void* event_handle, void* stream_handle) {
    const auto event = find_event(event_handle);
    const auto stream = find_stream(api, stream_handle);
    if (!event || !stream || event->device != stream->device) return invalid_handle;
    if (api.injected.is_planned()) {
        StreamOp fault;
        apply(api.injected, fault);
        submit(*stream, std::move(fault));
    }
    if (stream->capture) {
        event->capture = stream->capture, event->tails = stream->tails, event->latest = nullptr;
        return success;
    }
    event->capture = nullptr;
    event->latest = std::make_shared<StreamMarker>();
    StreamOp op;
    op.kind = StreamOp::Kind::record, op.marker = event->latest;
    return submit(*stream, std::move(op));
}

int wait_captured(const std::shared_ptr<Stream>& stream, const Event& event) {
    if (event.capture->broken) return capture_invalidated;
    if (stream->capture && stream->capture != event.capture) {
        stream->capture->broken = event.capture->broken = true;
        return 902; // two captures would merge
    }
    if (!stream->capture) {
        stream->capture = event.capture, stream->tails.clear();
        event.capture->streams.insert(stream);
    }
    for (size_t node : event.tails) {
        auto& tails = stream->tails;
        if (std::find(tails.begin(), tails.end(), node) == tails.end()) tails.push_back(node);
    }
    return success;
}

} // namespace

} // namespace emulated

using namespace emulated;

EMULATED_API cuStreamCreate(void** out, unsigned flags) {
    return call("cuStreamCreate", [&](ApiCall& api) -> int {
        if (flags > 1) return invalid_value;
        find_stream(api, nullptr); // the legacy stream comes first
        const Handle handle = state().next_handle++;
        state().streams[handle] = make_stream(*api.device, handle, flags == 0);
        *out = reinterpret_cast<void*>(handle);
        return success;
    });
}

EMULATED_API cuStreamCreateWithPriority(void** out, unsigned flags, int) {
    return cuStreamCreate(out, flags);
}

EMULATED_API cuStreamDestroy_v2(void* handle) {
    return call("cuStreamDestroy", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream || stream->handle == 0) return invalid_handle;
        leave_capture(*stream);
        state().streams.erase(stream->handle);
        // Queued work still runs.
        if (stream->queue.empty()) std::erase(api.device->streams, stream);
        return success;
    });
}

EMULATED_API cuStreamSynchronize(void* handle) {
    return call("cuStreamSynchronize", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (stream->capture) return stream->capture->broken = true, capture_unsupported;
        const uint64_t target = stream->submitted;
        return drive(api.lock, *api.device, [&] { return stream->finished >= target; });
    });
}

EMULATED_API cuStreamQuery(void* handle) {
    return call("cuStreamQuery", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        if (stream->capture) return stream->capture->broken = true, capture_unsupported;
        poll(api);
        if (api.device->sticky) return api.device->sticky;
        return stream->queue.empty() ? success : not_ready;
    });
}

EMULATED_API cuStreamWaitEvent(void* stream_handle, void* event_handle, unsigned) {
    return call("cuStreamWaitEvent", [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, stream_handle);
        const auto event = find_event(event_handle);
        if (!stream || !event) return invalid_handle;
        if (event->capture) return wait_captured(stream, *event);
        if (!event->latest) return success;
        if (stream->capture) return stream->capture->broken = true, capture_isolation;
        StreamOp op;
        op.kind = StreamOp::Kind::wait, op.marker = event->latest;
        return submit(*stream, std::move(op));
    });
}

EMULATED_API cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
    return queue_call("cuLaunchHostFunc", nullptr, [&](ApiCall& api) -> int {
        const auto stream = find_stream(api, handle);
        if (!stream) return invalid_handle;
        StreamOp op;
        op.calls_host = true;
        op.run = [=]() -> Failure { return function(argument), Failure{}; };
        apply(api.injected, op);
        return submit(*stream, std::move(op));
    });
}

EMULATED_API cuEventCreate(void** out, unsigned flags) {
    return call("cuEventCreate", [&](ApiCall& api) -> int {
        const Handle handle = state().next_handle++;
        auto event = std::make_shared<Event>();
        event->device = api.device->index, event->flags = flags;
        state().events[handle] = event;
        *out = reinterpret_cast<void*>(handle);
        return success;
    });
}

EMULATED_API cuEventDestroy_v2(void* event) {
    return call("cuEventDestroy", [&](ApiCall&) -> int {
        return state().events.erase(reinterpret_cast<Handle>(event)) ? success : invalid_handle;
    });
}

EMULATED_API cuEventRecord(void* event, void* stream) {
    return queue_call("cuEventRecord", nullptr,
                      [&](ApiCall& api) { return record(api, event, stream); });
}

EMULATED_API cuEventRecordWithFlags(void* event, void* stream, unsigned) {
    return cuEventRecord(event, stream);
}

EMULATED_API cuEventQuery(void* handle) {
    return call("cuEventQuery", [&](ApiCall& api) -> int {
        const auto event = find_event(handle);
        if (!event) return invalid_handle;
        if (event->capture) return event->capture->broken = true, captured_event;
        const auto marker = event->latest;
        if (!marker || marker->done) return success;
        poll(api);
        if (api.device->sticky) return api.device->sticky;
        return marker->done ? success : not_ready;
    });
}

EMULATED_API cuEventSynchronize(void* handle) {
    return call("cuEventSynchronize", [&](ApiCall& api) -> int {
        const auto event = find_event(handle);
        if (!event) return invalid_handle;
        if (event->capture) return event->capture->broken = true, captured_event;
        const auto marker = event->latest;
        if (!marker) return success;
        Device& device = state().devices[size_t(event->device)];
        return drive(api.lock, device, [&] { return marker->done; });
    });
}

EMULATED_API cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    return call("cuEventElapsedTime", [&](ApiCall&) -> int {
        const auto a = find_event(start), b = find_event(end);
        const unsigned untimed = 2; // CU_EVENT_DISABLE_TIMING
        if (!a || !b || ((a->flags | b->flags) & untimed) || !a->latest || !b->latest) {
            return invalid_handle;
        }
        if (!a->latest->done || !b->latest->done) return not_ready;
        const std::chrono::duration<float, std::milli> taken = b->latest->at - a->latest->at;
        *milliseconds = taken.count();
        return success;
    });
}

EMULATED_API cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
