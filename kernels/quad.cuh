// The widest unit that one instruction loads or stores: elements consist of several.
#pragma once
#include "carry.cuh"

struct alignas(16) Quad {
    uint32_t w[4];
};
