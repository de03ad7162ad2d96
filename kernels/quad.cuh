// The widest piece of memory that one instruction moves: elements are stored as several of them.
#pragma once
#include "carry.cuh"

struct alignas(16) Quad {
    uint32_t w[4];
};
