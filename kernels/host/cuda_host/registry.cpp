#include "registry.hpp"

#include <cstdlib>
#include <cxxabi.h>
#include <deque>

#include "shared.hpp"

namespace cuda_host {

namespace {

struct DeclaredKernel {
    std::string module;
    std::vector<uint32_t> bounds;
};

// Created on first use: kernels register before main, in no particular order of files.
std::deque<DeclaredKernel>& declared() {
    static auto* queue = new std::deque<DeclaredKernel>;
    return *queue;
}

struct SharedArray {
    std::string kernel;
    size_t bytes, align;
};

std::vector<SharedArray>& shared_arrays() {
    static auto* all = new std::vector<SharedArray>;
    return *all;
}

/// The function that contains a local type; for kernels, which are extern "C", the plain name.
std::string function_of(const char* local_type) {
    int status = 0;
    char* readable = abi::__cxa_demangle(local_type, nullptr, nullptr, &status);
    const std::string name = status == 0 ? readable : "";
    std::free(readable);
    return name.substr(0, name.rfind("::"));
}

/// Adds up the static shared memory that kernels declare directly. Arrays declared by functions
/// they call become known when these run.
void add_up_shared() {
    for (const auto& [function, bytes, align] : shared_arrays()) {
        const auto kernel = kernels().find(function);
        if (kernel == kernels().end()) continue;
        auto& sum = kernel->second.shared_bytes_max;
        sum = (sum + align - 1) / align * align + bytes;
    }
    shared_arrays().clear();
}

} // namespace

uint32_t new_shared_site(const char* site, size_t bytes, size_t align) {
    static uint32_t sites = 0; // the loader is single-threaded
    shared_arrays().push_back({function_of(site), bytes, align});
    return sites++;
}

std::map<std::string, Kernel>& kernels() {
    static auto* map = new std::map<std::string, Kernel>;
    return *map;
}

std::vector<std::string>& registry_errors() {
    static auto* errors = new std::vector<std::string>;
    return *errors;
}

bool declare_kernel(const char* module, std::initializer_list<uint32_t> bounds) {
    declared().push_back({module, bounds});
    return true;
}

bool export_kernel(Kernel kernel) {
    auto& queue = declared();
    // Entries of another file: it has a KERNEL without EXPORT_KERNEL.
    while (!queue.empty() && queue.front().module != kernel.module) {
        registry_errors().push_back("a KERNEL in module " + queue.front().module +
                                    " has no EXPORT_KERNEL");
        queue.pop_front();
    }
    if (!queue.empty()) {
        const auto& bounds = queue.front().bounds;
        if (bounds.size() > 0) kernel.threads_max = bounds[0];
        if (bounds.size() > 1) kernel.blocks_min = bounds[1];
        queue.pop_front();
    }
    const auto name = kernel.name;
    const auto module = kernel.module;
    if (!kernels().emplace(name, std::move(kernel)).second) {
        registry_errors().push_back("kernel " + name + " of module " + module + " is a duplicate");
    }
    return true;
}

bool registry_is_sound() {
    for (const auto& left : declared()) {
        registry_errors().push_back("a KERNEL in module " + left.module + " has no EXPORT_KERNEL");
    }
    declared().clear();
    add_up_shared();
    return registry_errors().empty();
}

} // namespace cuda_host
