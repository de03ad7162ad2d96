// A pass of a transform: a block loads a tile of 2^S points of 2^C lanes, transforms the points of
// each lane, and stores them. All passes are DIF; any orders of the input and the output are a
// matter of addresses.
//
// Seen from a pass, a row of 2^lg_n words consists of blocks of 2^lg_block words. A point is a row
// of such a block, seen as a matrix of 2^S rows; a lane is a column of it. After a pass, the row
// number is the bit reversal of the frequency, and each row is a block of the next pass. In the
// last pass, a block has one column; lanes are blocks whose numbers, bit-reversed, are consecutive.
//
// The S stages are two digits: 2^K0 points in the registers of a thread, then 2^K1. Between them the
// tile is exchanged through shared memory. Lanes of a warp run over consecutive words of memory in
// both.
#pragma once
#include "field.cuh"

// Flags.
constexpr uint32_t INPUT_REVERSED = 1;  // the first pass reads a row in bit-reversed order
constexpr uint32_t OUTPUT_NATURAL = 2;  // the last pass writes a row in natural order
constexpr uint32_t SCALED = 4;          // points are scaled by `factors`: before the first pass's
                                        // transforms, after the last one's

template <uint32_t S, uint32_t C> struct Tile31 {
    static constexpr uint32_t K0 = (S + 1) / 2, K1 = S - K0;
    static constexpr uint32_t LANES31 = 1 << C;
    static constexpr uint32_t THREADS = 1 << (S + C - K0);
    // Butterflies of the second digit of a thread.
    static constexpr uint32_t SECOND = 1 << (K0 - K1);

    // Where a point of a lane is in shared memory: without bank conflicts, also if the lanes of a
    // warp run over lanes of the tile.
    static FN uint32_t place(uint32_t lane, uint32_t point) {
        const uint32_t low = (lane << (5 - C)) | ((point >> 5) & ((1u << (5 - C)) - 1));
        return (lane << S | point) ^ (low & 31);
    }

    // The first digit: a thread's points are j << (S - K0) | low.
    static FN void first_digit(uint32_t (&x)[1 << K0], uint32_t* tile, const Twiddle31* twiddles,
                               uint32_t lane, uint32_t low, const Prime31& f) {
        dif<K0>(x, f);
#pragma unroll
        for (uint32_t l = 0; l < 1 << K0; l++) {
            const uint32_t point = l << (S - K0) | low;
            if (l > 0 && K1 > 0) x[l] = multiply(x[l], twiddles[point], f);
            tile[place(lane, point)] = x[l];
        }
        __syncthreads();
    }

    // The second digit: x[l] becomes the value of frequency reversed(l) << K0 | reversed(high).
    static FN void second_digit(uint32_t (&x)[1 << K1], const uint32_t* tile, uint32_t lane,
                                uint32_t high, const Prime31& f) {
#pragma unroll
        for (uint32_t j = 0; j < 1 << K1; j++) x[j] = tile[place(lane, high << K1 | j)];
        dif<K1>(x, f);
    }
};

FN uint32_t reversed_bits(uint32_t x, uint32_t bits) { return bits ? __brev(x) >> (32 - bits) : 0; }

// A pass that is not the last. `starts[high << lg_columns | column]` and `steps[column]` are powers
// of the block's root in Montgomery form, with the factors of a coset.
template <uint32_t S, uint32_t C>
FN void columns_pass(uint32_t* tile, const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,
                     const uint32_t* starts, const uint32_t* steps, const Twiddle31* factors,
                     uint32_t lg_block, uint32_t flags, const Prime31& f) {
    using ColumnsTile = Tile31<S, C>;
    constexpr uint32_t K0 = ColumnsTile::K0, K1 = ColumnsTile::K1;
    const uint32_t lg_columns = lg_block - S, lg_groups = lg_columns - C;
    const uint64_t block = uint64_t(blockIdx.x) >> lg_groups;
    const uint32_t group = (blockIdx.x & ((1u << lg_groups) - 1)) << C;
    const uint64_t begin = block << lg_block;
    {
        uint32_t x[1 << K0];
        const uint32_t lane = threadIdx.x & (ColumnsTile::LANES31 - 1), low = threadIdx.x >> C;
        const uint32_t column = group | lane;
        if (flags & INPUT_REVERSED) {
            // A column is adjacent. A thread's points are, too.
            const uint64_t first = begin + (uint64_t(reversed_bits(column, lg_columns)) << S) +
                                   (uint64_t(reversed_bits(low, S - K0)) << K0);
#pragma unroll
            for (uint32_t j = 0; j < 1 << K0; j++) x[reversed(j, K0)] = in[first + j];
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 1 << K0; j++) {
                const uint64_t point = j << (S - K0) | low;
                x[j] = in[begin + (point << lg_columns) + column];
            }
        }
        if (flags & SCALED) {
#pragma unroll
            for (uint32_t j = 0; j < 1 << K0; j++)
                x[j] = multiply(x[j], factors[j << (S - K0) | low], f);
        }
        ColumnsTile::first_digit(x, tile, twiddles, lane, low, f);
    }
#pragma unroll
    for (uint32_t g = 0; g < ColumnsTile::SECOND; g++) {
        uint32_t x[1 << K1];
        const uint32_t number = threadIdx.x + g * ColumnsTile::THREADS;
        const uint32_t lane = number & (ColumnsTile::LANES31 - 1), high = number >> C;
        const uint32_t column = group | lane;
        ColumnsTile::second_digit(x, tile, lane, high, f);
        uint32_t power = starts[(uint64_t(high) << lg_columns) + column];
        const uint32_t step = steps[column];
#pragma unroll
        for (uint32_t k = 0; k < 1 << K1; k++) {
            const uint32_t l = reversed(k, K1);
            const uint64_t row = high << K1 | l;
            out[begin + (row << lg_columns) + column] = montgomery(x[l], power, f);
            if (k + 1 < 1 << K1) power = montgomery(power, step, f);
        }
    }
}

// The last of several passes. Rows of 2^lg_n words are adjacent; each has 2^(lg_n - S) blocks.
template <uint32_t S, uint32_t C>
FN void last_pass(uint32_t* tile, const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,
                  const Twiddle31* factors, uint32_t lg_n, uint32_t flags, const Prime31& f) {
    using LastTile = Tile31<S, C>;
    constexpr uint32_t K0 = LastTile::K0, K1 = LastTile::K1;
    const uint32_t lg_blocks = lg_n - S, lg_groups = lg_blocks - C;
    const uint64_t begin = (uint64_t(blockIdx.x) >> lg_groups) << lg_n;
    const uint32_t group = blockIdx.x & ((1u << lg_groups) - 1);
    {
        uint32_t x[1 << K0];
        const uint32_t low = threadIdx.x & ((1u << (S - K0)) - 1), lane = threadIdx.x >> (S - K0);
        const uint64_t block = uint64_t(reversed_bits(lane, C)) << lg_groups | group;
#pragma unroll
        for (uint32_t j = 0; j < 1 << K0; j++)
            x[j] = in[begin + (block << S) + (j << (S - K0) | low)];
        LastTile::first_digit(x, tile, twiddles, lane, low, f);
    }
#pragma unroll
    for (uint32_t g = 0; g < LastTile::SECOND; g++) {
        uint32_t x[1 << K1];
        const uint32_t number = threadIdx.x + g * LastTile::THREADS;
        // Lanes are adjacent in natural order, points in bit-reversed order.
        const bool is_natural = flags & OUTPUT_NATURAL;
        const uint32_t lane = is_natural ? number & (LastTile::LANES31 - 1) : number >> K0;
        const uint32_t high = is_natural ? number >> C : number & ((1u << K0) - 1);
        const uint64_t block = uint64_t(reversed_bits(lane, C)) << lg_groups | group;
        LastTile::second_digit(x, tile, lane, high, f);
#pragma unroll
        for (uint32_t l = 0; l < 1 << K1; l++) {
            const uint32_t frequency = reversed(l, K1) << K0 | reversed(high, K0);
            uint32_t value = x[l];
            if (flags & SCALED) value = multiply(value, factors[frequency], f);
            const uint64_t natural = (uint64_t(frequency) << lg_blocks) +
                                     (uint64_t(reversed_bits(group, lg_groups)) << C | lane);
            const uint64_t in_place = (block << S) + (high << K1 | l);
            out[begin + (is_natural ? natural : in_place)] = value;
        }
    }
}

// A whole transform of 2^S words; lanes are rows, of which there are `rows`.
template <uint32_t S, uint32_t C>
FN void single_pass(uint32_t* tile, const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,
                    const Twiddle31* before, const Twiddle31* after, uint32_t rows, uint32_t flags,
                    const Prime31& f) {
    using SingleTile = Tile31<S, C>;
    constexpr uint32_t K0 = SingleTile::K0, K1 = SingleTile::K1;
    const uint32_t first_row = blockIdx.x << C;
    {
        uint32_t x[1 << K0];
        const uint32_t low = threadIdx.x & ((1u << (S - K0)) - 1), lane = threadIdx.x >> (S - K0);
        const uint64_t row = first_row + lane;
        const bool exists = row < rows;
#pragma unroll
        for (uint32_t j = 0; j < 1 << K0; j++) {
            const uint32_t point = j << (S - K0) | low;
            const uint32_t at = flags & INPUT_REVERSED ? reversed_bits(point, S) : point;
            x[j] = exists ? in[(row << S) + at] : 0;
            if (before) x[j] = multiply(x[j], before[point], f);
        }
        SingleTile::first_digit(x, tile, twiddles, lane, low, f);
    }
#pragma unroll
    for (uint32_t g = 0; g < SingleTile::SECOND; g++) {
        uint32_t x[1 << K1];
        const uint32_t number = threadIdx.x + g * SingleTile::THREADS;
        const uint32_t high = number & ((1u << K0) - 1), lane = number >> K0;
        const uint64_t row = first_row + lane;
        SingleTile::second_digit(x, tile, lane, high, f);
        if (row >= rows) continue;
#pragma unroll
        for (uint32_t l = 0; l < 1 << K1; l++) {
            const uint32_t frequency = reversed(l, K1) << K0 | reversed(high, K0);
            const uint32_t at = flags & OUTPUT_NATURAL ? frequency : high << K1 | l;
            out[(row << S) + at] = after ? multiply(x[l], after[frequency], f) : x[l];
        }
    }
}
