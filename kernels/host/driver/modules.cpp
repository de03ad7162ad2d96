// Modules, and attributes of their functions.
#include "modules.hpp"

#include <cstring>

namespace emulated {

namespace {

struct Module {
    int device;
    std::string name; // empty: all kernels, for a fatbin
};

std::map<Handle, Module>& modules() {
    static auto* map = new std::map<Handle, Module>;
    return *map;
}
std::map<Handle, ModuleFunction>& functions() {
    static auto* map = new std::map<Handle, ModuleFunction>;
    return *map;
}

bool is_module(const std::string& name) {
    const auto& all = cuda_host::kernels();
    return std::any_of(all.begin(), all.end(), [&](auto& k) { return k.second.module == name; });
}

int load(ApiCall& api, void** out, const void* image) {
    constexpr char prefix[] = "emulated:";
    constexpr uint32_t fatbin = 0xba55ed50;
    std::string name;
    if (std::strncmp(static_cast<const char*>(image), prefix, sizeof prefix - 1) == 0) {
        name = static_cast<const char*>(image) + sizeof prefix - 1;
        if (!is_module(name)) return print_line("no module \"" + name + "\""), no_binary;
    } else if (std::memcmp(image, &fatbin, sizeof fatbin) != 0) {
        return 200; // invalid image
    }
    const Handle handle = state().next_handle++;
    modules()[handle] = {api.device->index, name};
    *out = reinterpret_cast<void*>(handle);
    return success;
}

} // namespace

ModuleFunction* find_function(const ApiCall& api, void* handle) {
    const auto found = functions().find(reinterpret_cast<Handle>(handle));
    const bool ours = found != functions().end() && found->second.device == api.device->index;
    return ours ? &found->second : nullptr;
}

const char* name_of_function(void* handle) {
    const auto found = functions().find(reinterpret_cast<Handle>(handle));
    return found == functions().end() ? nullptr : found->second.kernel->name.c_str();
}

void forget_modules(int device) {
    std::erase_if(modules(), [&](const auto& m) { return m.second.device == device; });
    std::erase_if(functions(), [&](const auto& f) { return f.second.device == device; });
}

namespace {

/// Registers per thread: the most that `__launch_bounds__` allows, since the compiler may use all.
/// The blocks in the bounds are limited to those that a multiprocessor holds.
int registers(const ModuleFunction& f) {
    const auto threads = int(f.kernel->threads_max);
    const int holds = f.preset().threads / threads;
    const int blocks = std::max(1, std::min(int(f.kernel->blocks_min), holds));
    return std::min(255, registers_multiprocessor / (threads * blocks) / 8 * 8);
}

int resident_blocks(const ModuleFunction& f, int block, size_t shared) {
    const DevicePreset& preset = f.preset();
    const auto known = size_t(f.shared_static());
    if (block > threads_block || shared + known > size_t(preset.shared_block)) return 0;
    const int warps = (block + warp_threads - 1) / warp_threads;
    const int by_threads = preset.threads / (warps * warp_threads);
    const int allocated = (registers(f) + 7) / 8 * 8;
    const int by_registers = registers_multiprocessor / (allocated * warps * warp_threads);
    const auto by_shared = int(size_t(preset.shared_bytes) / (shared + known + shared_reserved));
    return std::min({preset.blocks, by_threads, by_registers, by_shared});
}

} // namespace

} // namespace emulated

using namespace emulated;

EMULATED_API cuModuleLoadData(void** out, const void* image) {
    return call("cuModuleLoadData", "module", false, nullptr, [&](ApiCall& api) -> int {
        if (!image) return invalid_value;
        return load(api, out, image);
    });
}

EMULATED_API cuModuleLoadDataEx(void** out, const void* image, unsigned, void*, void**) {
    return cuModuleLoadData(out, image);
}

EMULATED_API cuModuleUnload(void* module) {
    return call("cuModuleUnload", [&](ApiCall&) -> int {
        const auto handle = reinterpret_cast<Handle>(module);
        std::erase_if(functions(), [&](const auto& f) { return f.second.module == handle; });
        return modules().erase(handle) ? success : invalid_handle;
    });
}

EMULATED_API cuModuleGetFunction(void** out, void* module, const char* name) {
    return call("cuModuleGetFunction", [&](ApiCall& api) -> int {
        const auto from = modules().find(reinterpret_cast<Handle>(module));
        if (from == modules().end()) return invalid_handle;
        const auto kernel = cuda_host::kernels().find(name);
        if (kernel == cuda_host::kernels().end()) return not_found;
        const auto& wanted = from->second.name;
        if (!wanted.empty() && kernel->second.module != wanted) return not_found;
        const Handle handle = state().next_handle++;
        functions()[handle] = {api.device->index, from->first, &kernel->second};
        *out = reinterpret_cast<void*>(handle);
        return success;
    });
}

EMULATED_API cuFuncGetAttribute(int* value, int attribute, void* function) {
    return call("cuFuncGetAttribute", [&](ApiCall& api) -> int {
        const ModuleFunction* f = find_function(api, function);
        if (!f) return invalid_handle;
        const int capability = 10 * f->preset().major + f->preset().minor;
        switch (attribute) {
        case 0: *value = int(f->kernel->threads_max); return success;
        case 1: *value = f->shared_static(); return success;
        case 2: case 3: case 7: *value = 0; return success; // constants, local memory, cache mode
        case 4: *value = registers(*f); return success;
        case 5: case 6: *value = capability; return success; // PTX and binary version
        case 8: *value = f->dynamic_shared_max(); return success;
        case 9: *value = -1; return success; // carve-out: default
        default: return invalid_value;
        }
    });
}

EMULATED_API cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
    return call("cuFuncGetParamInfo", [&](ApiCall& api) -> int {
        const ModuleFunction* f = find_function(api, function);
        if (!f) return invalid_handle;
        const auto& sizes = f->kernel->sizes;
        if (index >= sizes.size()) return invalid_value;
        size_t at = 0;
        for (size_t i = 0; i < index; i++) {
            at += sizes[i];
            at = (at + sizes[i + 1] - 1) / sizes[i + 1] * sizes[i + 1]; // pointers and integers
        }
        *offset = at, *bytes = sizes[index];
        return success;
    });
}

EMULATED_API cuFuncSetAttribute(void* function, int attribute, int value) {
    return call("cuFuncSetAttribute", [&](ApiCall& api) -> int {
        ModuleFunction* f = find_function(api, function);
        if (!f) return invalid_handle;
        if (attribute == 9) return value >= -1 && value <= 100 ? success : invalid_value;
        const int most = f->preset().shared_block - f->shared_static();
        if (attribute != 8 || value < 0 || value > most) return invalid_value;
        f->opted_in = value;
        return success;
    });
}

EMULATED_API cuFuncSetCacheConfig(void* function, int) {
    return call("cuFuncSetCacheConfig", [&](ApiCall& api) {
        return find_function(api, function) ? success : invalid_handle;
    });
}

EMULATED_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block,
                                                         size_t shared) {
    return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&](ApiCall& api) -> int {
        const ModuleFunction* f = find_function(api, function);
        if (!f) return invalid_handle;
        if (block <= 0) return invalid_value;
        *blocks = resident_blocks(*f, block, shared);
        return success;
    });
}

EMULATED_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function,
                                                                  int block, size_t shared,
                                                                  unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}
