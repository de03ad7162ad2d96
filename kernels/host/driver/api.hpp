// Common to all driver calls: lock, current context, sticky errors, injected faults.
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

/// Whether the error makes its context unusable.
bool is_sticky(int code);

/// The effect of an injected fault on this call.
struct Injection {
    int code = 0;
    bool hangs = false;
    int damages = -1;   // argument that points to the output to damage; negative: none
    long offset = 0;    // bytes from there
    size_t cleared = 0; // bytes to clear; 0: one bit is flipped

    bool is_planned() const { return code || hangs || damages >= 0; }
};

/// Counts the call and returns its fault, if one is planned. `device` is negative for calls that
/// concern no single device; `group` and `kernel` may be null.
Injection inject(const char* name, int device, const char* group, const char* kernel = nullptr);
void set_faults(const char* specification);
/// Aborts the process: the call has no output to damage.
[[noreturn]] void refuse_damage();

struct ApiCall {
    Lock lock;
    Device* device;
    Injection injected; // for calls that queue work: takes effect when the work runs
};

/// This thread's current context, or null.
Device* current_device();

/// Waits until the device is reset, like a call that hangs.
int hang(ApiCall& api);

/// Wraps a call. `later`: `body` handles injected sticky faults and hangs.
template <typename Body>
int call(const char* name, const char* group, bool later, const char* kernel, Body body) {
    ApiCall api{Lock(state().lock), nullptr, {}};
    if (!state().initialised) return not_initialised;
    api.device = current_device();
    if (!api.device) return invalid_context;
    if (api.device->retained == 0) return context_destroyed;
    if (api.device->sticky) return api.device->sticky;
    api.injected = inject(name, api.device->index, group, kernel);
    if (!later && api.injected.damages >= 0) refuse_damage();
    if (!later || !(api.injected.hangs || is_sticky(api.injected.code))) {
        if (api.injected.hangs) return hang(api);
        if (is_sticky(api.injected.code)) lose(*api.device, api.injected.code, "injected fault");
        if (api.injected.code) return api.injected.code;
    }
    return body(api);
}

/// Wraps a call that queues no work.
template <typename Body> int call(const char* name, Body body) {
    return call(name, nullptr, false, nullptr, body);
}

/// Wraps a call that queues work; under a seed, runs some queued work before it returns.
template <typename Body>
int queue_call(const char* name, const char* group, Body body, const char* kernel = nullptr) {
    return call(name, group, true, kernel, [&](ApiCall& api) -> int {
        const int code = body(api);
        if (code == success) run_some_work(api.lock);
        return code;
    });
}

/// Applies an injected fault to `op`. `written` returns the address that an argument points to.
void apply(const Injection& injected, StreamOp& op,
           const std::function<uint8_t*(int)>& written = nullptr);

/// The stream of a handle in this context, or null.
std::shared_ptr<Stream> find_stream(ApiCall& api, void* handle);

} // namespace emulated
