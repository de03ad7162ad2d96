// The module must exist, but the self-test fails before it uses it.
#include "cuda_host.hpp"
KERNEL(64) never_launched(uint32_t*) {}
EXPORT_KERNEL(never_launched);
