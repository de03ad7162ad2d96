// Kernel launches: validation, and checks before and after a kernel runs.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "api.hpp"
#include "memory.hpp"
#include "modules.hpp"

namespace emulated {

namespace {

/// The first compute capability with programmatic dependent launch.
constexpr int capability_early = 9;

struct LaunchShape {
    dim3 grid, block;
    unsigned shared;
    bool early = false; // may start before the previous work in its stream has ended
};

/// Why the device would refuse the launch, or an empty string.
std::string refusal(const ModuleFunction& f, const LaunchShape& shape) {
    const auto& [grid, block, shared, early] = shape;
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    const bool empty = !grid.x || !grid.y || !grid.z;
    if (empty || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) {
        return format("invalid grid of %u x %u x %u", grid.x, grid.y, grid.z);
    }
    if (threads == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        threads > f.kernel->threads_max) {
        return format("invalid block of %u x %u x %u, at most %u threads", block.x, block.y,
                      block.z, f.kernel->threads_max);
    }
    const uint64_t known = uint64_t(f.shared_static()), most = uint64_t(f.preset().shared_block);
    if (shared > unsigned(f.dynamic_shared_max()) || shared + known > most) {
        return format("%u dynamic and %llu static bytes of shared memory; the limits are %d "
                      "dynamic, %llu in total",
                      shared, static_cast<unsigned long long>(known), f.dynamic_shared_max(),
                      static_cast<unsigned long long>(most));
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

/// Fails if memory adjacent to the kernel's arguments was overwritten, most likely by the kernel.
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

DeviceWork kernel_run(const ModuleFunction& f, const LaunchShape& shape, void** arguments,
                      int device) {
    const auto* kernel = f.kernel;
    const size_t words = kernel->argument_bytes / sizeof(std::max_align_t) + 1;
    auto packed = std::make_shared<std::vector<std::max_align_t>>(words);
    kernel->pack(arguments, packed->data());
    // Static shared memory of called functions is known only at run time; default limit 48 KiB.
    const auto allowed = uint32_t(f.opted_in < 0 ? shared_default : f.preset().shared_block);
    return [=]() -> Failure {
        uint64_t seed;
        {
            Lock lock(state().lock);
            Failure failure = check_pointers(*kernel, packed->data(), device);
            if (failure.code) return failure;
            const uint64_t number = ++state().launches;
            seed = state().seed ? cuda_host::mix(state().seed, number) | 1 : 0;
        }
        const cuda_host::KernelLaunch grid{kernel,  shape.grid,     shape.block, shape.shared,
                                           allowed, packed->data(), seed,        shape.early};
        Failure failure = cuda_host::run_grid(grid);
        if (failure.code) return failure;
        Lock lock(state().lock);
        return check_after(*kernel, packed->data());
    };
}

/// The address in a pointer argument; null for other arguments.
uint8_t* pointer_argument(const cuda_host::Kernel& kernel, void** arguments, int argument) {
    std::vector<std::max_align_t> packed(kernel.argument_bytes / sizeof(std::max_align_t) + 1);
    kernel.pack(arguments, packed.data());
    for (const auto& pointer : kernel.pointers(packed.data())) {
        if (int(pointer.index) == argument) return reinterpret_cast<uint8_t*>(pointer.address);
    }
    return nullptr;
}

/// Appends the kernel to the file that EMU_TRACE_EARLY names, once per process.
void trace_early(const std::string& kernel) {
    static auto* traced = new std::set<std::string>;
    std::FILE* file = state().early_trace;
    if (!file || !traced->insert(kernel).second) return;
    // A missing line would pass for a kernel that is not launched early.
    if (std::fprintf(file, "%s\n", kernel.c_str()) < 0 || std::fflush(file) != 0) {
        print_line("EMU_TRACE_EARLY: cannot write to its file");
        std::abort();
    }
}

int launch(ApiCall& api, void* function, const LaunchShape& shape, void* stream_handle,
           void** arguments) {
    const ModuleFunction* f = find_function(api, function);
    const auto stream = find_stream(api, stream_handle);
    if (!f || !stream) return invalid_handle;
    if (shape.early && f->preset().major < capability_early) {
        print_line("cuLaunchKernelEx of " + f->kernel->name +
                   ": the device has no programmatic dependent launch");
        return not_supported;
    }
    if (const auto why = refusal(*f, shape); !why.empty()) {
        print_line("cuLaunchKernel of " + f->kernel->name + ": " + why);
        return invalid_value;
    }
    if (shape.early) trace_early(f->kernel->name);
    StreamOp op;
    op.run = kernel_run(*f, shape, arguments, api.device->index);
    apply(api.injected, op,
          [&](int argument) { return pointer_argument(*f->kernel, arguments, argument); });
    return submit(*stream, std::move(op));
}

} // namespace

} // namespace emulated

using namespace emulated;

namespace {

int launch_kernel(void* function, const LaunchShape& shape, void* stream, void** arguments,
                  void** extra) {
    const char* name = nullptr;
    {
        Lock lock(state().lock);
        name = name_of_function(function);
    }
    return queue_call(
        "cuLaunchKernel", "launch",
        [&](ApiCall& api) -> int {
            if (extra) return not_supported;
            return launch(api, function, shape, stream, arguments);
        },
        name);
}

/// Memory layout of `CUlaunchConfig` and `CUlaunchAttribute` of the driver API.
struct LaunchAttribute {
    unsigned id;
    char pad[4];
    union {
        char room[64];
        int allowed;
    } value;
};
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void* stream;
    const LaunchAttribute* attributes;
    unsigned attribute_count;
};
constexpr unsigned stream_serialization = 6; // programmatic

} // namespace

EMULATED_API cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            void* stream, void** arguments, void** extra) {
    const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
    return launch_kernel(function, shape, stream, arguments, extra);
}

/// Injected faults treat it as cuLaunchKernel. It never starts early, but checks that threads wait.
EMULATED_API cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments,
                              void** extra) {
    if (!config || (config->attribute_count && !config->attributes)) return invalid_value;
    const auto& [x, y, z] = config->grid;
    const auto& [block_x, block_y, block_z] = config->block;
    LaunchShape shape{{x, y, z}, {block_x, block_y, block_z}, config->shared};
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const LaunchAttribute& attribute = config->attributes[i];
        if (attribute.id != stream_serialization) return not_supported;
        shape.early = attribute.value.allowed != 0;
    }
    return launch_kernel(function, shape, config->stream, arguments, extra);
}
