// Transforms of up to 2^7 words: radix-2 stages in shared memory. A tile has 2^10 words, which are
// those of several transforms.
#pragma once
#include "layout.cuh"

struct Small31 {
    static constexpr uint32_t LG_TILE = 10, THREADS = 256;
    static constexpr uint32_t WORDS = (1 << LG_TILE) / THREADS; // of a thread

    const Prime31& f;
    uint32_t* tile;
    const Twiddle31* twiddles; // powers of the root, 2^(lg_n - 1) of them
    uint32_t lg_n;
    uint32_t rows; // in the tile that exist
    uint64_t first_row;

    FN Small31(const Prime31& prime, uint32_t* shared, const Twiddle31* powers, uint32_t lg,
               uint64_t all_rows)
        : f(prime), tile(shared), twiddles(powers), lg_n(lg) {
        const uint32_t most = 1u << (LG_TILE - lg_n);
        first_row = uint64_t(blockIdx.x) * most;
        const uint64_t left = all_rows - first_row;
        rows = left < most ? uint32_t(left) : most;
    }
    // Calls `use` with a word's place in the tile, its row, and its point.
    template <class Use> FN void each(Use use) const {
#pragma unroll
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t place = i * THREADS + threadIdx.x, row = place >> lg_n;
            if (row < rows) use(place, row, place & ((1u << lg_n) - 1));
        }
    }
    FN void load(const uint32_t* in, Layout31 layout, const Twiddle31* factors) const {
        each([&](uint32_t place, uint32_t row, uint32_t point) {
            const uint64_t at = (first_row + row) * layout.stride + point;
            const uint32_t word = point < layout.length ? in[at] : 0;
            tile[place] = factors ? multiply(word, entry(factors + point), f) : word;
        });
        __syncthreads();
    }
    FN void store(uint32_t* out, Layout31 layout, const Twiddle31* factors) const {
        each([&](uint32_t place, uint32_t row, uint32_t point) {
            const uint32_t word = tile[place];
            if (point < layout.length)
                out[(first_row + row) * layout.stride + point] =
                    factors ? multiply(word, entry(factors + point), f) : word;
        });
    }
    // Calls `use` with the places of each butterfly's words and its twiddle.
    template <class Use> FN void stage(uint32_t lg_half, Use use) const {
#pragma unroll
        for (uint32_t n = 0; n < WORDS / 2; n++) {
            const uint32_t number = n * THREADS + threadIdx.x, i = number & ((1u << lg_half) - 1);
            const uint32_t low = (number >> lg_half << (lg_half + 1)) + i;
            use(low, low + (1u << lg_half), entry(twiddles + (i << (lg_n - 1 - lg_half))));
        }
        __syncthreads();
    }
    FN void frequencies() const {
        for (uint32_t lg_half = lg_n; lg_half-- > 0;)
            stage(lg_half, [&](uint32_t low, uint32_t high, const Twiddle31& twiddle) {
                const uint32_t a = tile[low], b = tile[high];
                tile[low] = add(a, b, f);
                tile[high] = multiply(a - b + f.p, twiddle, f);
            });
    }
    FN void points() const {
        for (uint32_t lg_half = 0; lg_half < lg_n; lg_half++)
            stage(lg_half, [&](uint32_t low, uint32_t high, const Twiddle31& twiddle) {
                const uint32_t a = tile[low], b = multiply(tile[high], twiddle, f);
                tile[low] = add(a, b, f);
                tile[high] = subtract(a, b, f);
            });
    }
    FN Layout31 adjacent() const { return {uint64_t(1) << lg_n, 1u << lg_n}; }
};
