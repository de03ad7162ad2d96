// The frame of every driver call: lock, current context, sticky errors, injected faults.
#pragma once

#include "state.hpp"

#define EMULATED_API extern "C" __attribute__((visibility("default"))) int

namespace emulated {

enum : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialised = 3,
    no_device = 100,
    invalid_device = 101,
    invalid_context = 201,
    no_binary = 209,
    peer_unsupported = 217,
    invalid_handle = 400,
    illegal_state = 401,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    peer_already_enabled = 704,
    peer_not_enabled = 705,
    context_destroyed = 709,
    launch_failed = 719,
    not_supported = 801,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_unmatched = 903,
    capture_unjoined = 904,
    capture_isolation = 905,
    capture_implicit = 906,
    captured_event = 907,
    capture_wrong_thread = 908,
};

/// Errors after which a context is unusable.
bool is_sticky(int code);

/// What an injected fault does to this call.
struct Injection {
    int code = 0;
    bool hangs = false;
    int flips = -1; // the argument that names what is spoiled
};

/// Counts the call, and gives the fault that is due. `group` and `kernel` may be null.
Injection inject(const char* name, const char* group, const char* kernel = nullptr);
void set_faults(const char* specification);
/// Ends the process: what is called writes nothing that could be spoiled.
[[noreturn]] void refuse_flip();

struct Api {
    Lock lock;
    Device* device;
    Injection injected; // for calls that queue work: it happens when the work runs
};

/// The context that is current in this thread, or null.
Device* current_device();

/// Waits until the device is reset: what a call that hangs does.
int hang(Api& api);

/// Frames a call. `later`: injected sticky faults and hangs are left to the body.
template <typename Body>
int call(const char* name, const char* group, bool later, const char* kernel, Body body) {
    Api api{Lock(state().lock), nullptr, {}};
    if (!state().initialised) return not_initialised;
    api.device = current_device();
    if (!api.device) return invalid_context;
    if (api.device->retained == 0) return context_destroyed;
    if (api.device->sticky) return api.device->sticky;
    api.injected = inject(name, group, kernel);
    if (!later && api.injected.flips >= 0) refuse_flip();
    if (!later || !(api.injected.hangs || is_sticky(api.injected.code))) {
        if (api.injected.hangs) return hang(api);
        if (is_sticky(api.injected.code)) lose(*api.device, api.injected.code, "injected fault");
        if (api.injected.code) return api.injected.code;
    }
    return body(api);
}

/// A call that only asks or changes the driver's own state.
template <typename Body> int call(const char* name, Body body) {
    return call(name, nullptr, false, nullptr, body);
}

/// A call that queues work; under a seed, some of what is queued runs before it returns.
template <typename Body>
int queue_call(const char* name, const char* group, Body body, const char* kernel = nullptr) {
    return call(name, group, true, kernel, [&](Api& api) -> int {
        const int code = body(api);
        if (code == success) go_on(api.lock);
        return code;
    });
}

/// Makes `op` do what was injected instead of its own work, or after it: `written` says where that
/// argument, by its number, points to.
void apply(const Injection& injected, Op& op,
           const std::function<uint8_t*(int)>& written = nullptr);

/// The stream of a handle in this context; null where there is none.
std::shared_ptr<Stream> find_stream(Api& api, void* handle);

} // namespace emulated
