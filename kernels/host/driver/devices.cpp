// Devices, their attributes, and primary contexts.
#include "api.hpp"
#include "memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../cuda_host/registry.hpp"
#include "modules.hpp"
#include "presets.hpp"

namespace emulated {

namespace {

constinit thread_local Device* current = nullptr;

DriverState* make_state() {
    auto* made = new DriverState;
    const char* named = std::getenv("EMU_DEVICE");
    const std::string names = named ? named : "";
    made->devices.resize(setting("EMU_DEVICES", std::max<uint64_t>(1, count_presets(names))));
    for (size_t i = 0; i < made->devices.size(); i++) made->devices[i].index = int(i);
    made->unusable = set_presets(*made, names);
    made->seed = setting("EMU_SEED", 0);
    made->random = {made->seed};
    std::string faults;
    if (const char* text = std::getenv("EMU_FAULT")) faults = text;
    if (const char* text = std::getenv("EMU_HANG")) faults += "," + std::string(text) + ":hang";
    set_faults(faults.c_str());
    // Opened now, because workers give up the right to open files for writing.
    if (const char* path = std::getenv("EMU_TRACE_EARLY"); path && *path) {
        made->early_trace = std::fopen(path, "ae");
        if (!made->early_trace) made->unusable = format("EMU_TRACE_EARLY: cannot open %s", path);
    }
    return made;
}

} // namespace

DriverState& state() {
    static DriverState* made = make_state();
    return *made;
}

Device* current_device() { return current; }

void reset(Lock& lock, Device& device) {
    device.generation++;
    // Ops that run on another thread must finish first: they use what is freed below.
    state().changed.notify_all();
    state().changed.wait(lock, [] { return !state().running; });
    drop_work(device);
    auto mine = [&](const auto& entry) { return entry.second->device == device.index; };
    std::erase_if(state().execs,
                  [&](const auto& e) { return e.second->graph->device == device.index; });
    std::erase_if(state().captures,
                  [&](const auto& c) { return c->graph->device == device.index; });
    std::erase_if(state().streams, mine);
    std::erase_if(state().events, mine);
    std::erase_if(state().graphs, mine);
    forget_modules(device.index);
    for (auto& stream : device.streams) stream->capture = nullptr;
    device.streams.clear(), device.per_thread.clear(), device.legacy = nullptr;
    free_all(device.index);
    device.sticky = 0, device.peers = 0;
    state().changed.notify_all();
}

} // namespace emulated

using namespace emulated;

namespace {

/// Wraps a call that needs no context.
template <typename Body> int device_call(const char* name, int device, Body body) {
    Lock lock(state().lock);
    if (!state().initialised) return not_initialised;
    if (device < 0 || size_t(device) >= state().devices.size()) return invalid_device;
    if (const int code = inject(name, device, nullptr).code) return code;
    return body(lock, state().devices[size_t(device)]);
}

} // namespace

EMULATED_API cuInit(unsigned flags) {
    Lock lock(state().lock);
    if (flags) return invalid_value;
    if (const int code = inject("cuInit", -1, nullptr).code) return code;
    if (!cuda_host::registry_is_sound()) {
        for (const auto& error : cuda_host::registry_errors()) print_line(error);
        return not_initialised;
    }
    if (!state().unusable.empty()) return print_line(state().unusable), not_initialised;
    if (state().devices.empty()) return no_device;
    state().initialised = true;
    return success;
}

EMULATED_API cuDriverGetVersion(int* version) { return *version = 13000, success; }

EMULATED_API cuDeviceGetCount(int* count) {
    Lock lock(state().lock);
    *count = int(state().devices.size());
    return state().initialised ? success : not_initialised;
}

EMULATED_API cuDeviceGet(int* device, int index) {
    return device_call("cuDeviceGet", index, [&](Lock&, Device&) { return *device = index, 0; });
}

EMULATED_API cuDeviceGetName(char* name, int length, int device) {
    return device_call("cuDeviceGetName", device, [&](Lock&, Device& d) {
        // Default devices are only named by their number.
        const bool classless = d.preset == &preset_default;
        const auto full = "emulated " + (classless ? format("device %d", device) : d.preset->title);
        std::snprintf(name, size_t(length), "%s", full.c_str());
        return success;
    });
}

EMULATED_API cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
    return device_call("cuDeviceGetUuid", device, [&](Lock&, Device&) {
        std::memcpy(uuid, "emulated device", 15);
        uuid[15] = static_cast<unsigned char>(device);
        return success;
    });
}
EMULATED_API cuDeviceGetUuid(unsigned char* uuid, int device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

EMULATED_API cuDeviceGetPCIBusId(char* id, int length, int device) {
    return device_call("cuDeviceGetPCIBusId", device, [&](Lock&, Device&) {
        std::snprintf(id, size_t(length), "0000:00:%02x.0", device);
        return success;
    });
}

EMULATED_API cuDeviceTotalMem_v2(size_t* bytes, int device) {
    return device_call("cuDeviceTotalMem", device,
                       [&](Lock&, Device& d) { return *bytes = d.bytes_total, success; });
}

EMULATED_API cuDeviceGetAttribute(int* value, int attribute, int device) {
    return device_call("cuDeviceGetAttribute", device, [&](Lock&, Device& d) -> int {
        if (attribute < 1) return invalid_value;
        *value = attribute_of(d, attribute);
        return success;
    });
}

EMULATED_API cuDevicePrimaryCtxRetain(void** context, int device) {
    return device_call("cuDevicePrimaryCtxRetain", device, [&](Lock&, Device& d) {
        d.retained++;
        *context = &d;
        return d.sticky;
    });
}

EMULATED_API cuDevicePrimaryCtxRelease_v2(int device) {
    return device_call("cuDevicePrimaryCtxRelease", device, [&](Lock& lock, Device& d) -> int {
        if (d.retained == 0) return invalid_context;
        if (--d.retained == 0) reset(lock, d);
        return success;
    });
}

EMULATED_API cuDevicePrimaryCtxReset_v2(int device) {
    return device_call("cuDevicePrimaryCtxReset", device, [&](Lock& lock, Device& d) {
        reset(lock, d);
        return success;
    });
}

EMULATED_API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    return device_call("cuDevicePrimaryCtxGetState", device, [&](Lock&, Device& d) {
        *flags = d.context_flags, *active = d.retained > 0;
        return success;
    });
}

EMULATED_API cuCtxGetCurrent(void** context) { return *context = current, success; }

EMULATED_API cuCtxSetCurrent(void* context) {
    Lock lock(state().lock);
    for (Device& device : state().devices) {
        if (context == &device) return current = &device, success;
    }
    current = nullptr;
    return context ? invalid_context : success;
}

EMULATED_API cuCtxGetDevice(int* device) {
    return call("cuCtxGetDevice",
                [&](ApiCall& api) { return *device = api.device->index, success; });
}

EMULATED_API cuCtxSetFlags(unsigned flags) {
    return call("cuCtxSetFlags", [&](ApiCall& api) {
        return api.device->context_flags = flags, success;
    });
}

EMULATED_API cuCtxGetLimit(size_t* value, int limit) {
    return call("cuCtxGetLimit", [&](ApiCall&) -> int {
        // Stack per thread, printf buffer, heap: the values of a new context.
        constexpr size_t limits[] = {1024, 1 << 20, 8 << 20};
        if (limit < 0 || limit > 2) return invalid_value;
        *value = limits[limit];
        return success;
    });
}

EMULATED_API cuCtxSetLimit(int limit, size_t) {
    return call("cuCtxSetLimit",
                [&](ApiCall&) -> int { return limit < 0 ? invalid_value : success; });
}

EMULATED_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return call("cuCtxGetStreamPriorityRange", [&](ApiCall&) {
        return *least = 0, *greatest = 0, success;
    });
}

EMULATED_API cuCtxSynchronize() {
    return call("cuCtxSynchronize", [&](ApiCall& api) -> int {
        if (int refused = refuse_while_capturing()) return refused;
        std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> targets;
        for (const auto& stream : api.device->streams) {
            targets.emplace_back(stream, stream->submitted);
        }
        return drive(api.lock, *api.device, [&] {
            for (const auto& [stream, target] : targets) {
                if (stream->finished < target) return false;
            }
            return true;
        });
    });
}

EMULATED_API cuDeviceCanAccessPeer(int* can, int device, int peer) {
    return device_call("cuDeviceCanAccessPeer", device, [&](Lock&, Device&) -> int {
        if (peer < 0 || size_t(peer) >= state().devices.size()) return invalid_device;
        *can = device != peer;
        return success;
    });
}

EMULATED_API cuCtxEnablePeerAccess(void* context, unsigned flags) {
    return call("cuCtxEnablePeerAccess", [&](ApiCall& api) -> int {
        const auto* peer = static_cast<const Device*>(context);
        if (!peer || peer == api.device || flags) return invalid_value;
        if (api.device->peers >> peer->index & 1) return peer_already_enabled;
        api.device->peers |= 1u << peer->index;
        return success;
    });
}

EMULATED_API cuCtxDisablePeerAccess(void* context) {
    return call("cuCtxDisablePeerAccess", [&](ApiCall& api) -> int {
        const auto* peer = static_cast<const Device*>(context);
        if (!peer || (api.device->peers >> peer->index & 1) == 0) return peer_not_enabled;
        api.device->peers &= ~(1u << peer->index);
        return success;
    });
}
