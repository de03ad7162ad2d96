// Modules and functions, which belong to a device.
#pragma once

#include <algorithm>

#include "../cuda_host/registry.hpp"
#include "api.hpp"

namespace emulated {

struct ModuleFunction {
    int device;
    Handle module;
    const cuda_host::Kernel* kernel;
    int opted_in = -1; // bytes of dynamic shared memory; negative: not set

    /// Static shared memory, as far as known.
    int shared_static() const {
        return int(__atomic_load_n(&kernel->shared_bytes_max, __ATOMIC_RELAXED));
    }
    int dynamic_shared_max() const {
        return opted_in < 0 ? std::max(0, shared_default - shared_static()) : opted_in;
    }
    const DevicePreset& preset() const { return *state().devices[size_t(device)].preset; }
};

/// The function of a handle in the current context, or null.
ModuleFunction* find_function(const ApiCall& api, void* handle);

/// The kernel's name, for functions of any device, or null.
const char* name_of_function(void* handle);

/// Drops the modules and functions of a device.
void forget_modules(int device);

} // namespace emulated
