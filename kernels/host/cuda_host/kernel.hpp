// Declaration of kernels, and what the driver knows about each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "thread.hpp"

namespace cuda_host {

/// A pointer among a kernel's arguments.
struct PointerArgument {
    uintptr_t address;
    size_t align;
    uint32_t index;
};

/// A kernel and its parameters. Launches copy the arguments, as the driver does.
struct Kernel {
    std::string module, name;
    uint32_t threads_max;          // from `__launch_bounds__`
    uint32_t blocks_min;           // from `__launch_bounds__`; 0 if not specified
    size_t argument_bytes;         // of the packed arguments
    uint64_t shared_bytes_max = 0; // static shared memory per block, as far as known
    void (*pack)(void** arguments, void* packed);
    void (*call)(const void* packed);
    std::vector<PointerArgument> (*pointers)(const void* packed);
    std::vector<size_t> sizes; // of the arguments, in order
};

/// Records the `__launch_bounds__` of the kernel that is exported next.
bool declare_kernel(const char* module, std::initializer_list<uint32_t> bounds);
bool export_kernel(Kernel kernel);

template <auto F> struct Bind;
template <typename... A, void (*F)(A...)> struct Bind<F> {
    using Packed = std::tuple<A...>;
    static_assert((std::is_trivially_copyable_v<A> && ...), "arguments are passed by value");

    static void pack(void** arguments, void* packed) {
        fill(arguments, packed, std::index_sequence_for<A...>{});
    }
    template <size_t... I> static void fill(void** from, void* to, std::index_sequence<I...>) {
        auto* packed = new (to) Packed;
        // Arguments may be unaligned.
        (std::memcpy(&std::get<I>(*packed), from[I], sizeof(A)), ...);
    }
    static std::vector<size_t> sizes() { return {sizeof(A)...}; }
    static void call(const void* packed) { std::apply(F, *static_cast<const Packed*>(packed)); }

    static std::vector<PointerArgument> pointers(const void* packed) {
        std::vector<PointerArgument> found;
        uint32_t index = 0;
        auto look = [&](auto value) {
            if constexpr (std::is_pointer_v<decltype(value)>) {
                using T = std::remove_pointer_t<decltype(value)>;
                size_t align = 1;
                if constexpr (!std::is_void_v<T>) align = alignof(T);
                found.push_back({reinterpret_cast<uintptr_t>(value), align, index});
            }
            index++;
        };
        std::apply([&](auto... values) { (look(values), ...); },
                   *static_cast<const Packed*>(packed));
        return found;
    }
};

template <auto F> bool export_function(const char* module, const char* name) {
    using B = Bind<F>;
    return export_kernel(
        {module, name, 1024, 0, sizeof(typename B::Packed), 0, B::pack, B::call, B::pointers,
         B::sizes()});
}

} // namespace cuda_host

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define FN inline
#define NOINLINE [[gnu::noinline]] inline
#define CONSTANT static constexpr

#ifndef CUDA_HOST_MODULE
#error "build.sh names the module of each kernel file: -DCUDA_HOST_MODULE=..."
#endif

#define CUDA_HOST_JOIN_(a, b) a##b
#define CUDA_HOST_JOIN(a, b) CUDA_HOST_JOIN_(a, b)

/// KERNEL(maximum threads per block, minimum blocks per multiprocessor) name(arguments) {...}
#define KERNEL(...)                                                                                \
    [[maybe_unused]] static const bool CUDA_HOST_JOIN(cuda_host_bounds_, __COUNTER__) =            \
        ::cuda_host::declare_kernel(CUDA_HOST_MODULE, {__VA_ARGS__});                              \
    extern "C" void

#define EXPORT_KERNEL(name)                                                                        \
    [[maybe_unused]] static const bool cuda_host_export_##name =                                   \
        ::cuda_host::export_function<&name>(CUDA_HOST_MODULE, #name)

/// States an invariant; compiles to nothing on the device.
#define ASSERT_RANGE(condition)                                                                    \
    ((condition) ? void() : ::cuda_host::assertion_failed(#condition,                              \
                                                          ::cuda_host::CodeLocation::current()))
