// CUDA's thread model on the CPU: a kernel file that includes this instead of the CUDA toolkit
// compiles with g++ and runs behind the emulated driver (driver/). See README.md.
#pragma once

#include "cuda_host/thread.hpp"

#include "cuda_host/async_copy.hpp"
#include "cuda_host/atomics.hpp"
#include "cuda_host/bits.hpp"
#include "cuda_host/kernel.hpp"
#include "cuda_host/shared.hpp"
#include "cuda_host/warp.hpp"
