#include "registry.hpp"

#include <deque>

namespace cuda_host {

namespace {

struct Declared {
    std::string module;
    std::vector<uint32_t> bounds;
};

// Made on first use: kernels register themselves before main, in no particular order of files.
std::deque<Declared>& declared() {
    static auto* queue = new std::deque<Declared>;
    return *queue;
}

} // namespace

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
    // Left over by another file: a KERNEL there has no EXPORT_KERNEL.
    while (!queue.empty() && queue.front().module != kernel.module) {
        registry_errors().push_back("module " + queue.front().module + " hides a kernel");
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
        registry_errors().push_back("kernel " + name + ", module " + module + ", is not the first");
    }
    return true;
}

bool registry_is_sound() {
    for (const auto& left : declared()) {
        registry_errors().push_back("module " + left.module + " hides a kernel");
    }
    declared().clear();
    return registry_errors().empty();
}

} // namespace cuda_host
