// The module has to be there; the test ends before it.
#include "cuda_host.hpp"
KERNEL(64) never_launched(uint32_t*) {}
EXPORT_KERNEL(never_launched);
