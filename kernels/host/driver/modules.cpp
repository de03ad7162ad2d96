// Modules, functions, and launches of kernels.
#include "modules.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "../cuda_host/registry.hpp"
#include "api.hpp"
#include "memory.hpp"

namespace emulated {

namespace {

constexpr int shared_default = 48 << 10, shared_opt_in = 227 << 10;

struct Module {
    int device;
    std::string name; // empty: all kernels, as for a real image
};

struct Function {
    int device;
    Handle module;
    const cuda_host::Kernel* kernel;
    int dynamic_shared_max = shared_default;
};

std::map<Handle, Module>& modules() {
    static auto* map = new std::map<Handle, Module>;
    return *map;
}
std::map<Handle, Function>& functions() {
    static auto* map = new std::map<Handle, Function>;
    return *map;
}

Function* find_function(const Api& api, void* handle) {
    const auto found = functions().find(reinterpret_cast<Handle>(handle));
    const bool ours = found != functions().end() && found->second.device == api.device->index;
    return ours ? &found->second : nullptr;
}

bool is_module(const std::string& name) {
    const auto& all = cuda_host::kernels();
    return std::any_of(all.begin(), all.end(), [&](auto& k) { return k.second.module == name; });
}

int load(Api& api, void** out, const void* image) {
    constexpr char prefix[] = "emulated:";
    constexpr uint32_t fatbin = 0xba55ed50;
    std::string name;
    if (std::strncmp(static_cast<const char*>(image), prefix, sizeof prefix - 1) == 0) {
        name = static_cast<const char*>(image) + sizeof prefix - 1;
        if (!is_module(name)) return say("no module \"" + name + "\""), no_binary;
    } else if (std::memcmp(image, &fatbin, sizeof fatbin) != 0) {
        return 200; // invalid image
    }
    const Handle handle = state().next_handle++;
    modules()[handle] = {api.device->index, name};
    *out = reinterpret_cast<void*>(handle);
    return success;
}

} // namespace

void forget_modules(int device) {
    std::erase_if(modules(), [&](const auto& m) { return m.second.device == device; });
    std::erase_if(functions(), [&](const auto& f) { return f.second.device == device; });
}

namespace {

struct Shape {
    dim3 grid, block;
    unsigned shared;
    bool early = false; // asks to start before what comes before it in its stream has ended
};

/// Why the device would refuse the launch; empty if it would not.
std::string refusal(const Function& f, const Shape& shape) {
    const auto& [grid, block, shared, early] = shape;
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    const bool empty = !grid.x || !grid.y || !grid.z;
    if (empty || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) {
        return format("grid of %u x %u x %u", grid.x, grid.y, grid.z);
    }
    if (threads == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        threads > f.kernel->threads_max) {
        return format("block of %u x %u x %u, %u threads at most", block.x, block.y, block.z,
                      f.kernel->threads_max);
    }
    const uint64_t known = __atomic_load_n(&f.kernel->shared_bytes_max, __ATOMIC_RELAXED);
    if (shared > unsigned(f.dynamic_shared_max)) {
        return format("%u bytes of dynamic shared memory, %d allowed", shared,
                      f.dynamic_shared_max);
    }
    if (shared + known > unsigned(shared_opt_in)) {
        return format("%u dynamic and %llu static bytes of shared memory", shared,
                      static_cast<unsigned long long>(known));
    }
    return {};
}

Failure check_pointers(const cuda_host::Kernel& kernel, const void* packed, int device) {
    for (const auto& pointer : kernel.pointers(packed)) {
        if (pointer.address == 0) continue;
        const auto what = format("kernel %s, argument %u", kernel.name.c_str(), pointer.index);
        if (pointer.address % pointer.align != 0) {
            return {716, what + format(": not aligned to %zu bytes", pointer.align)};
        }
        if (is_pinned(reinterpret_cast<const void*>(pointer.address), 0)) continue;
        Failure failure = check_range(device, pointer.address, 0, what.c_str());
        if (failure.code) return failure;
    }
    return {};
}

/// Somebody wrote around what the kernel was given: most likely the kernel.
Failure check_after(const cuda_host::Kernel& kernel, const void* packed) {
    for (const auto& pointer : kernel.pointers(packed)) {
        const Allocation* found = pointer.address ? find_allocation(pointer.address, 0) : nullptr;
        if (!found) continue;
        Failure failure = check_edges(*found);
        if (failure.code) {
            return {failure.code, format("kernel %s, argument %u: %s", kernel.name.c_str(),
                                         pointer.index, failure.text.c_str())};
        }
    }
    return {};
}

Run kernel_run(const Function& f, const Shape& shape, void** arguments, int device) {
    using Packed = std::vector<std::max_align_t>;
    const auto* kernel = f.kernel;
    const size_t words = kernel->argument_bytes / sizeof(std::max_align_t) + 1;
    auto packed = std::make_shared<Packed>(words);
    kernel->pack(arguments, packed->data());
    // Static shared memory is not known before it runs; without opting in it shares 48 KiB.
    return [=, opted_in = f.dynamic_shared_max > shared_default]() -> Failure {
        uint64_t seed;
        {
            Lock lock(state().lock);
            Failure failure = check_pointers(*kernel, packed->data(), device);
            if (failure.code) return failure;
            const uint64_t number = ++state().launches;
            seed = state().seed ? cuda_host::mix(state().seed, number) | 1 : 0;
        }
        const auto allowed = uint32_t(opted_in ? shared_opt_in : shared_default);
        const cuda_host::Grid grid{kernel,  shape.grid,     shape.block, shape.shared,
                                   allowed, packed->data(), seed,        shape.early};
        Failure failure = cuda_host::run_grid(grid);
        if (failure.code) return failure;
        Lock lock(state().lock);
        return check_after(*kernel, packed->data());
    };
}

/// Where an argument points to; null where it is no pointer.
uint8_t* named_by(const cuda_host::Kernel& kernel, void** arguments, int argument) {
    std::vector<std::max_align_t> packed(kernel.argument_bytes / sizeof(std::max_align_t) + 1);
    kernel.pack(arguments, packed.data());
    for (const auto& pointer : kernel.pointers(packed.data())) {
        if (int(pointer.index) == argument) return reinterpret_cast<uint8_t*>(pointer.address);
    }
    return nullptr;
}

int launch(Api& api, void* function, const Shape& shape, void* stream_handle, void** arguments) {
    const Function* f = find_function(api, function);
    const auto stream = find_stream(api, stream_handle);
    if (!f || !stream) return invalid_handle;
    if (const auto why = refusal(*f, shape); !why.empty()) {
        say("cuLaunchKernel of " + f->kernel->name + ": " + why);
        return invalid_value;
    }
    Op op;
    op.run = kernel_run(*f, shape, arguments, api.device->index);
    apply(api.injected, op, [&](int argument) { return named_by(*f->kernel, arguments, argument); });
    return submit(*stream, std::move(op));
}

/// Registers a thread may have: what the launch bounds leave, for the compiler uses more if it may.
int registers(const cuda_host::Kernel& kernel) {
    const uint32_t threads = kernel.threads_max * std::max(1u, kernel.blocks_min);
    return int(std::min(255u, 65536 / threads / 8 * 8));
}

int resident_blocks(const Function& f, int block, size_t shared) {
    if (block <= 0 || unsigned(block) > f.kernel->threads_max) return 0;
    const int warps = (block + 31) / 32;
    const int by_threads = 64 / warps;
    const int by_registers = 65536 / (registers(*f.kernel) * warps * 32);
    const size_t each = shared + f.kernel->shared_bytes_max + 1024; // 1 KiB is the system's
    const int by_shared = int((228u << 10) / each);
    return std::min({32, by_threads, by_registers, by_shared});
}

} // namespace

} // namespace emulated

using namespace emulated;

EMULATED_API cuModuleLoadData(void** out, const void* image) {
    return call("cuModuleLoadData", "module", false, nullptr, [&](Api& api) -> int {
        if (!image) return invalid_value;
        return load(api, out, image);
    });
}

EMULATED_API cuModuleLoadDataEx(void** out, const void* image, unsigned, void*, void**) {
    return cuModuleLoadData(out, image);
}

EMULATED_API cuModuleUnload(void* module) {
    return call("cuModuleUnload", [&](Api&) -> int {
        const auto handle = reinterpret_cast<Handle>(module);
        std::erase_if(functions(), [&](const auto& f) { return f.second.module == handle; });
        return modules().erase(handle) ? success : invalid_handle;
    });
}

EMULATED_API cuModuleGetFunction(void** out, void* module, const char* name) {
    return call("cuModuleGetFunction", [&](Api& api) -> int {
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
    return call("cuFuncGetAttribute", [&](Api& api) -> int {
        const Function* f = find_function(api, function);
        if (!f) return invalid_handle;
        const auto known = int(f->kernel->shared_bytes_max);
        switch (attribute) {
        case 0: *value = int(f->kernel->threads_max); return success;
        case 1: *value = known; return success; // static shared memory, as far as seen
        case 2: case 3: case 7: *value = 0; return success; // constants, local memory, cache mode
        case 4: *value = registers(*f->kernel); return success;
        case 5: case 6: *value = 90; return success; // PTX and binary version
        case 8: *value = f->dynamic_shared_max; return success;
        case 9: *value = -1; return success; // carve-out: the driver's choice
        default: return invalid_value;
        }
    });
}

EMULATED_API cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
    return call("cuFuncGetParamInfo", [&](Api& api) -> int {
        const Function* f = find_function(api, function);
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
    return call("cuFuncSetAttribute", [&](Api& api) -> int {
        Function* f = find_function(api, function);
        if (!f) return invalid_handle;
        if (attribute == 9) return value >= -1 && value <= 100 ? success : invalid_value;
        const int room = shared_opt_in - int(f->kernel->shared_bytes_max);
        if (attribute != 8 || value < 0 || value > room) return invalid_value;
        f->dynamic_shared_max = value;
        return success;
    });
}

EMULATED_API cuFuncSetCacheConfig(void* function, int) {
    return call("cuFuncSetCacheConfig", [&](Api& api) {
        return find_function(api, function) ? success : invalid_handle;
    });
}

namespace {

int launch_kernel(void* function, const Shape& shape, void* stream, void** arguments,
                  void** extra) {
    const char* name = nullptr;
    {
        Lock lock(state().lock);
        const auto found = functions().find(reinterpret_cast<Handle>(function));
        if (found != functions().end()) name = found->second.kernel->name.c_str();
    }
    return queue_call(
        "cuLaunchKernel", "launch",
        [&](Api& api) -> int {
            if (extra) return not_supported;
            return launch(api, function, shape, stream, arguments);
        },
        name);
}

/// As `CUlaunchConfig` and `CUlaunchAttribute` of the driver API lie in memory.
struct Attribute {
    unsigned id;
    char pad[4];
    union {
        char room[64];
        int allowed;
    } value;
};
struct Config {
    unsigned grid[3], block[3], shared;
    void* stream;
    const Attribute* attributes;
    unsigned attribute_count;
};
constexpr unsigned stream_serialization = 6; // programmatic

} // namespace

EMULATED_API cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            void* stream, void** arguments, void** extra) {
    const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    return launch_kernel(function, shape, stream, arguments, extra);
}

/// The same to injected faults. It never starts early, but its threads must wait as if it did.
EMULATED_API cuLaunchKernelEx(const Config* config, void* function, void** arguments,
                              void** extra) {
    if (!config || (config->attribute_count && !config->attributes)) return invalid_value;
    const auto& [x, y, z] = config->grid;
    const auto& [block_x, block_y, block_z] = config->block;
    Shape shape{{x, y, z}, {block_x, block_y, block_z}, config->shared};
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const Attribute& attribute = config->attributes[i];
        if (attribute.id != stream_serialization) return not_supported;
        shape.early = attribute.value.allowed != 0;
    }
    return launch_kernel(function, shape, config->stream, arguments, extra);
}

EMULATED_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block,
                                                         size_t shared) {
    return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&](Api& api) -> int {
        const Function* f = find_function(api, function);
        if (!f) return invalid_handle;
        *blocks = resident_blocks(*f, block, shared);
        return success;
    });
}

EMULATED_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function,
                                                                  int block, size_t shared,
                                                                  unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}
