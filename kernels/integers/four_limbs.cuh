#pragma once
#include "../quad.cuh"

// Four adjacent limbs, and the limbs above them.
struct FourLimbs {
    uint32_t w[4];
    uint64_t carry;
};
