// Communication between the lanes of a warp and the warps of a block: shuffles, reductions and
// scans of structs of 32-bit words, with an associative `op`. All lanes of the warp (all threads of
// the block for block_*) take part.
#pragma once
#include "carry.cuh"

constexpr uint32_t ALL_LANES = 0xffffffff;
constexpr uint32_t LANES = 32;

FN uint32_t lane_index() { return threadIdx.x % LANES; }
FN uint32_t warp_index() { return threadIdx.x / LANES; }

// A struct's words, which are shuffled one by one. The emulated shuffle passes any size and waits
// for all lanes each time: there the struct is one word.
template <class T> struct ShuffleWords {
#ifdef __CUDACC__
    static_assert(sizeof(T) % 4 == 0, "shuffles move words");
    static constexpr int COUNT = sizeof(T) / 4;
    uint32_t w[COUNT];

    static FN ShuffleWords of(const T& value) {
        ShuffleWords words;
        memcpy(words.w, &value, sizeof(T));
        return words;
    }
    FN T value() const {
        T value;
        memcpy(&value, w, sizeof(T));
        return value;
    }
#else
    static constexpr int COUNT = 1;
    T w[COUNT];

    static FN ShuffleWords of(const T& value) { return {{value}}; }
    FN T value() const { return w[0]; }
#endif
};

struct AddWords {
    FN uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};
struct MaxWords {
    FN uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

template <class T, class Shuffle> FN T each_word(const T& value, Shuffle shuffle) {
    ShuffleWords<T> words = ShuffleWords<T>::of(value);
#pragma unroll
    for (int i = 0; i < ShuffleWords<T>::COUNT; i++) words.w[i] = shuffle(words.w[i]);
    return words.value();
}
// The value of the lane `delta` above, or the lane's own value if there is none.
template <class T> FN T shuffle_down(const T& value, uint32_t delta) {
    return each_word(value, [=](auto w) { return __shfl_down_sync(ALL_LANES, w, delta); });
}
// The value of the lane `delta` below, or the lane's own value if there is none.
template <class T> FN T shuffle_up(const T& value, uint32_t delta) {
    return each_word(value, [=](auto w) { return __shfl_up_sync(ALL_LANES, w, delta); });
}
// The value of lane `from`.
template <class T> FN T broadcast(const T& value, uint32_t from) {
    return each_word(value, [=](auto w) { return __shfl_sync(ALL_LANES, w, int(from)); });
}

// The value of lane `from` of the lane's group of WIDTH adjacent lanes.
template <int WIDTH, class T> FN T broadcast_in(const T& value, uint32_t from) {
    ShuffleWords<T> words = ShuffleWords<T>::of(value);
#pragma unroll
    for (int i = 0; i < ShuffleWords<T>::COUNT; i++)
        words.w[i] = __shfl_sync(ALL_LANES, words.w[i], int(from), WIDTH);
    return words.value();
}
// The value of the lane whose index is this lane's XOR `bits`.
template <class T> FN T shuffle_xor(const T& value, uint32_t bits) {
    ShuffleWords<T> words = ShuffleWords<T>::of(value);
#pragma unroll
    for (int i = 0; i < ShuffleWords<T>::COUNT; i++)
        words.w[i] = __shfl_xor_sync(ALL_LANES, words.w[i], int(bits));
    return words.value();
}

// Returns op over all lanes, in lane order, to lane 0; the result of other lanes is meaningless.
template <class T, class Op> FN T warp_reduce(T value, Op op) {
#pragma unroll 1
    for (uint32_t delta = 1; delta < LANES; delta *= 2) {
        const T above = shuffle_down(value, delta);
        value = op(value, above);
    }
    return value;
}
// Inclusive scan over the lanes.
template <class T, class Op> FN T warp_scan(T value, Op op) {
#pragma unroll 1
    for (uint32_t delta = 1; delta < LANES; delta *= 2) {
        const T below = shuffle_up(value, delta);
        if (lane_index() >= delta) value = op(below, value);
    }
    return value;
}

// Returns op over the block's threads to thread 0; the block size is a multiple of 32. `partials`
// is shared memory for one T per warp; a barrier must precede its next use.
template <class T, class Op>
FN T block_reduce(const T& value, const T& identity, T* partials, Op op) {
    const T sum = warp_reduce(value, op);
    if (lane_index() == 0) partials[warp_index()] = sum;
    __syncthreads();
    if (warp_index() > 0) return identity;
    return warp_reduce(lane_index() < blockDim.x / LANES ? partials[lane_index()] : identity, op);
}
// Exclusive scan over the block's threads; thread 0 gets the identity, and `total` op over all.
// `partials` is shared memory for 32 T; a barrier must precede its next use.
template <class T, class Op>
FN T block_scan(const T& value, const T& identity, T* partials, T& total, Op op) {
    const T upto = warp_scan(value, op);
    if (lane_index() == LANES - 1) partials[warp_index()] = upto;
    __syncthreads();
    if (warp_index() == 0) {
        const bool used = lane_index() < blockDim.x / LANES;
        const T sums = warp_scan(used ? partials[lane_index()] : identity, op);
        __syncwarp();
        partials[lane_index()] = sums;
    }
    __syncthreads();
    total = partials[LANES - 1];
    T below = shuffle_up(upto, 1);
    if (lane_index() == 0) below = identity;
    return warp_index() == 0 ? below : op(partials[warp_index() - 1], below);
}
