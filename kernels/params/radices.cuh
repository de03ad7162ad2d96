// Constants for scalar digits of a radix that is not a power of two (msm/radix.cuh).
// Written by scripts/kernel-params; compared by tests/msm.
#pragma once
#include "../carry.cuh"

// The number of windows of each radix.
constexpr uint32_t RADICES = 3;
CONSTANT uint32_t RADIX_WINDOWS[RADICES] = {26, 12, 11};
// The number of last digits for which 2 and 5 words suffice.
CONSTANT uint32_t RADIX_ENOUGH[RADICES][2] = {{5, 15}, {2, 7}, {2, 6}};
// 2^544 / B^windows, rounded up.
CONSTANT uint32_t RADIX_INVERSES[3][10] = {
    {0x90c094f6, 0x4db67d10, 0x3f77ddf2, 0xd451bb90, 0x8e4c66fd, 0xb7654e30,
     0x4b1cbfd4, 0xc0d1f815, 0x031f62b5, 0x00000002},
    {0x8b4c86f7, 0xc2dd3488, 0x863387e9, 0xcaf7411a, 0xeb31f476, 0x885c8ba7,
     0xf27f0f6e, 0xdea11197, 0x19799812, 0x00000001},
    {0x73821afb, 0xc59065c3, 0x38bcede9, 0x68919676, 0xfac48425, 0x63f54844,
     0xbaa32134, 0xba2936e8, 0x30994e79, 0x00000002},
};
// The sum of B^j B / 2 over all windows j.
CONSTANT uint32_t RADIX_HALVES[3][8] = {
    {0x1d7621c0, 0xb50f28e7, 0xb232e9f9, 0x64f846ef,
     0x3fc914e1, 0xe3cecd5f, 0xd0c4cf6b, 0x3faee0b0},
    {0x00140000, 0x7d000320, 0x40138800, 0x7a12030d,
     0xf09312d0, 0x973596fa, 0x0eefa05f, 0x746a5571},
    {0x00480000, 0xc8002880, 0x0cd08016, 0xf8873548,
     0xc7dbcc0d, 0x8b906ba2, 0xb20e813c, 0x3a73a828},
};
