// The fingerprint of memory: the sum modulo 2^64 of a mixed value of each word and its index. Copies
// that differ have the same one with probability 2^-64, unless somebody chooses the difference. The
// host computes it in `src/engine/engines/cuda/fingerprint.rs`.
//
// *sum: initially 0; the fingerprint is added. Blocks of 256, any grid. Shared memory and barriers:
// none.
#include "../warp.cuh"

constexpr uint32_t THREADS = 256;
// 2^64 divided by the golden ratio: multiples of it differ in many bits.
constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;

struct AddLongWords {
    FN uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection.
FN uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

KERNEL(256)
memory_fingerprint(const uint64_t* words, unsigned long long* sum, uint64_t n) {
    uint64_t own = 0;
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        own += mix(words[i] ^ (i + 1) * GOLDEN);
    }
    own = warp_reduce(own, AddLongWords());
    if (lane_index() == 0) atomicAdd(sum, own);
}
EXPORT_KERNEL(memory_fingerprint);
