// All kernels of the library, by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernel.hpp"

namespace cuda_host {

std::map<std::string, Kernel>& kernels();

/// Errors in the kernels' declarations, as sentences.
std::vector<std::string>& registry_errors();

/// Whether every KERNEL has its EXPORT_KERNEL and every name is unique. The first call also adds up
/// the kernels' static shared memory.
bool registry_is_sound();

} // namespace cuda_host
