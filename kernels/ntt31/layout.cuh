// Where a batch of transforms has its words in natural order.
#pragma once
#include "field.cuh"

// `length` adjacent words of each transform, `stride` words apart from those of the next one. The
// transform's other words are zeros: they are neither read nor written.
struct Layout31 {
    uint64_t stride;
    uint32_t length;
};
