// Columns' passes downward whose factors are merged into their butterflies: none between steps,
// none between passes, and a coset's cost nothing but in the first step.
//
// A block of M elements is a polynomial modulo X^M - s. A butterfly splits it by a square root c of
// s into u + c v and u - c v, modulo X^(M/2) - c and X^(M/2) + c: one product, by a factor that the
// whole block shares. Block B of 2^t in its transform has c = (g w^rev(B))^(M/2), with rev of t
// bits, the coset's generator g and w of order 2^lg_n. So a merged pass takes half a product an
// element and stage, 3 for radix 2^6, where steps.cuh takes 3/8 and one for the border: 3.25.
//
// The rows' pass that comes last has no blocks' factors: the last merged pass multiplies element k
// of block B by (g w^rev(B))^k, from a table for the whole transform.
//
// Tables. A step over 2^t blocks takes three factors for each B: c of B, and the next stage's of
// 2 B and 2 B + 1. Half h of multiple j of factor f of block B is at [((f K + j) 2 + h) plane + B],
// planes of 2^t + PAD pieces; step follows step.
//
// Ranges: any in, any out: what is added to any and subtracted from it are products (lazy.cuh).
#pragma once
#include "passes.cuh"

// The first pass on no coset: two of the first step's factors are 1. It is given canonical numbers.
constexpr uint32_t PLAIN = 1;
// Pieces at the end of a plane, so that planes do not fall on the same lines of a cache.
constexpr uint32_t PAD = 8;

template <int K> FN Factor<K> load_merged_factor(const Quad* entry, uint32_t plane, uint32_t f) {
    Factor<K> factor;
#pragma unroll
    for (uint32_t j = 0; j < 2 * K; j++) factor.halves[j] = entry[(2 * K * f + j) * plane];
    return factor;
}
// Two stages on four elements.
template <int K> FN void split_by_four(Fr* x, const Quad* entry, uint32_t plane, bool plain) {
    int u = ANY, v = PRODUCT;
    if (!plain) {
        const Factor<K> factor = load_merged_factor<K>(entry, plane, 0);
        x[2] = mul_constant<K>(x[2], factor), x[3] = mul_constant<K>(x[3], factor);
    }
    butterfly(x[0], x[2], u, v);
    u = ANY, v = PRODUCT, butterfly(x[1], x[3], u, v);
    if (!plain) x[1] = mul_constant<K>(x[1], load_merged_factor<K>(entry, plane, 1));
    u = ANY, v = PRODUCT, butterfly(x[0], x[1], u, v);
    x[3] = mul_constant<K>(x[3], load_merged_factor<K>(entry, plane, 2));
    u = ANY, v = PRODUCT, butterfly(x[2], x[3], u, v);
}

// The blocks of a pass before their steps: which one a thread block has, of how many.
struct Blocks {
    const Quad* table;
    uint32_t number, lg_count;
};
template <int K, int STEPS, int SHIFT>
FN void descend_merged(Fr* x, Quad* tile, const Blocks& blocks, bool plain) {
    constexpr uint32_t TOP = 2 * (STEPS - 1);
    uint32_t first = first_index<2>(threadIdx.x, TOP + SHIFT), at = place(first);
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t o = TOP - 2 * step, count = 1u << (blocks.lg_count + 2 * step);
        const uint32_t block = blocks.number << 2 * step | first >> (o + 2 + SHIFT);
        const uint32_t before = 2 * K * (count - (1u << blocks.lg_count) + 3 * PAD * step);
        split_by_four<K>(x, blocks.table + before + block, count + PAD, plain && step == 0);
        if (step == STEPS - 1) return;
        if (step > 0) __syncthreads(); // all have read what was put before
        put<2>(tile, at, o + SHIFT, 0, x);
        first = first_index<2>(threadIdx.x, o - 2 + SHIFT), at = place(first);
        __syncthreads();
        get<2>(tile, at, o - 2 + SHIFT, 0, x);
    }
}

// Radix 2^R, 2^C columns. B: multiples that are kept of the factors after the pass; 0: none.
template <int R, int C, int B>
FN void descend_merged_columns(const Quad* in, Quad* out, Quad* tile, const Quad* table,
                               const Quad* border, uint32_t lg_n, uint32_t lg_block, bool plain) {
    constexpr int K = 4;
    const Columns columns(lg_block, R, C);
    const uint64_t in_transform = (uint64_t(1) << lg_n) - 1;
    Fr x[4];
    const uint64_t from = columns.place(first_index<2>(threadIdx.x, R - 2 + C));
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        x[e] = load_element(in, from + (e << (R - 2 + columns.lg_s)));
    }
    const uint64_t to = columns.place(first_index<2>(threadIdx.x, C));
    const Quad* const factors = border + 2 * B * (to & in_transform);
    if (B > 0) {
#pragma unroll
        for (uint64_t e = 0; e < 4; e++) prefetch(factors + (2 * B * e << columns.lg_s));
    }
    const uint32_t number = uint32_t((columns.block & in_transform) >> lg_block);
    descend_merged<K, R / 2, C>(x, tile, {table, number, lg_n - lg_block}, plain);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if constexpr (B > 0) {
            x[e] = times_border_factor<B>(x[e], factors + (2 * B * e << columns.lg_s));
        }
        store_element(out, to + (e << columns.lg_s), x[e]);
    }
}
