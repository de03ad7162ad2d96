// How many threads a multiprocessor holds. The only file that distinguishes architectures with the
// same PTX: src/gpu/build/archs.rs lists the modules that include it.
#pragma once
#include <cstdint>

// More than that in `__launch_bounds__` does not compile.
#if defined(__CUDA_ARCH__) && ((__CUDA_ARCH__ >= 860 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1200)
constexpr uint32_t MULTIPROCESSOR_THREADS = 1536;
#else
constexpr uint32_t MULTIPROCESSOR_THREADS = 2048;
#endif
