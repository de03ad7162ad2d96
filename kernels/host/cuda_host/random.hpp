// A small generator: schedules need variety and repeatability, not secrecy.
#pragma once

#include <cstdint>

namespace cuda_host {

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
struct SplitMix64 {
    uint64_t state;

    uint64_t next() {
        uint64_t x = state += 0x9e3779b97f4a7c15;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }
    /// Uniform below `bound`, which must not be 0.
    uint32_t below(uint32_t bound) { return uint32_t((next() >> 32) * bound >> 32); }
};

/// Combines two values into a seed.
inline uint64_t mix(uint64_t a, uint64_t b) { return SplitMix64{a ^ SplitMix64{b}.next()}.next(); }

} // namespace cuda_host
