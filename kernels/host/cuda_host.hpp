// CUDA's thread model on the CPU. A kernel file that includes this header instead of the CUDA
// toolkit compiles with g++ and runs behind the emulated driver (driver/). See README.md.
#pragma once

#include "cuda_host/thread.hpp"

#include "cuda_host/async_copy.hpp"
#include "cuda_host/atomics.hpp"
#include "cuda_host/bits.hpp"
#include "cuda_host/kernel.hpp"
#include "cuda_host/mma.hpp"
#include "cuda_host/shared.hpp"
#include "cuda_host/warp.hpp"
