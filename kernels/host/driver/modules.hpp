// Modules and functions.
#pragma once

#include "state.hpp"

namespace emulated {

/// Unloads all modules of the device. With the lock held.
void forget_modules(int device);

} // namespace emulated
