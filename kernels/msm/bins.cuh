// The state of a sort: coarse bins, and the tiles that they are split into.
#pragma once
#include "counters.cuh"
#include "recode.cuh"

constexpr uint32_t BINS_MAX = 4096; // per vector
constexpr uint32_t LOW_MAX = 4096;  // buckets per bin

// Tiles of a bin. One block sorts a tile of 2^lg_tile digits, limited by the device's shared
// memory. A larger bin has several tiles, for any distribution of scalars. An empty bin has one
// tile, which writes where its buckets start.
FN uint32_t tiles_of(uint32_t digits, uint32_t lg_tile) {
    return digits == 0 ? 1 : ((digits - 1) >> lg_tile) + 1;
}

// The words of the state for `count` bins, in this order. The first three arrays must be zeroed.
struct SortBins {
    uint32_t* base;
    uint32_t count;

    FN uint32_t* ticket() const { return base; }                // [4], one used
    FN uint32_t* digits() const { return base + 4; }            // [count]
    FN uint32_t* finished() const { return digits() + count; }  // [count]: tiles counted
    FN uint32_t* start() const { return finished() + count; }   // [count + 1]: first digit
    FN uint32_t* cursor() const { return start() + count + 1; } // [count]: next free place
    FN uint32_t* tile_start() const { return cursor() + count; } // [count + 1]: first tile
    FN uint32_t* tile_bin() const { return tile_start() + count + 1; } // [tiles]
};

struct BinTotals {
    uint32_t tiles, digits;
    FN BinTotals operator+(const BinTotals& b) const {
        return {tiles + b.tiles, digits + b.digits};
    }
};

// Computes where bins and their tiles start, in one block. `partials` is shared memory for 32,
// `copy` for BINS_MAX words. Sets starts[buckets] to the number of digits.
FN void plan_bins(const SortBins& bins, uint32_t* starts, uint32_t buckets, uint32_t lg_tile,
                  BinTotals* partials, uint32_t* copy) {
    const bool copied = bins.count <= BINS_MAX;
    const BinTotals all = for_each_prefix_sum(
        bins.count, BinTotals{0, 0}, partials,
        [&](uint32_t i) {
            const uint32_t digits = load_volatile(bins.digits() + i);
            return BinTotals{tiles_of(digits, lg_tile), digits};
        },
        [&](uint32_t i, const BinTotals& sum) {
            bins.tile_start()[i] = sum.tiles;
            bins.start()[i] = bins.cursor()[i] = sum.digits;
            if (copied) copy[i] = sum.tiles;
        });
    if (threadIdx.x == 0) {
        bins.tile_start()[bins.count] = all.tiles;
        bins.start()[bins.count] = starts[buckets] = all.digits;
    }
    __syncthreads();
    const uint32_t* const tile_start = copied ? copy : bins.tile_start();
    for (uint32_t t = threadIdx.x; t < all.tiles; t += blockDim.x) {
        // The last bin with first tile <= t.
        uint32_t bin = 0, end = bins.count;
        while (end - bin > 1) {
            const uint32_t middle = (bin + end) / 2;
            if (tile_start[middle] <= t) {
                bin = middle;
            } else {
                end = middle;
            }
        }
        bins.tile_bin()[t] = bin;
    }
}

// The tile of block blockIdx.x.
struct CurrentTile {
    uint32_t bin, first_bucket, buckets; // of the bin; the first is counted over all vectors
    uint32_t begin, end;                 // digits
    uint32_t tiles;                      // of the bin
};
// Returns false if there are fewer tiles than blocks. A vector has `vector_bins` bins.
FN bool find_tile(CurrentTile& tile, const SortBins& bins, const Recoding& recoding,
                  uint32_t vector_bins, uint32_t lg_tile) {
    if (blockIdx.x >= bins.tile_start()[bins.count]) return false;
    const uint32_t bin = bins.tile_bin()[blockIdx.x];
    const uint32_t first = bins.tile_start()[bin], end = bins.start()[bin + 1];
    const uint32_t vector = bin / vector_bins;
    const uint32_t below = (bin - vector * vector_bins) << recoding.low_bits;
    const uint32_t rest = recoding.buckets() - below, most = 1u << recoding.low_bits;
    tile.bin = bin;
    tile.first_bucket = vector * recoding.buckets() + below;
    tile.buckets = rest < most ? rest : most;
    tile.tiles = bins.tile_start()[bin + 1] - first;
    tile.begin = bins.start()[bin] + ((blockIdx.x - first) << lg_tile);
    tile.end = end - tile.begin < 1u << lg_tile ? end : tile.begin + (1u << lg_tile);
    return true;
}
