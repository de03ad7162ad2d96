// Columns' passes whose factors are merged into their butterflies: none between steps, none between
// passes, and a coset's cost nothing but in the step over the top field.
//
// Downward, a block of M elements is a polynomial modulo X^M - s. A butterfly splits it by a square
// root c of s into u + c v and u - c v, modulo X^(M/2) - c and X^(M/2) + c: one product, by a
// factor that the whole block shares. Block B of 2^t in its transform has c = (g w^rev(B))^(M/2),
// with rev of t bits, the coset's generator g and w of order 2^lg_n. So a merged pass takes half a
// product an element and stage, 3 for radix 2^6, where steps.cuh takes 3/8 and one for the border:
// 3.25.
//
// The rows' pass that comes last has no blocks' factors: the last merged pass multiplies element k
// of block B by (g w^rev(B))^k, from a table for the whole transform.
//
// Upward it is the transpose, with the same tables: of u and v come u + v and c (u - v), and the
// border is first. There, powers of g multiply the output.
//
// Tables. A step over 2^t blocks takes three factors for each B: c of B, and the next stage's of
// 2 B and 2 B + 1. Pieces of eight blocks lie together, so that one address serves all: half h of
// multiple j of factor f of block B is at [48 K (B / 8) + 8 (2 (f K + j) + h) + B % 8]. Step
// follows step; a pass over one block has room for eight.
//
// Ranges: any in, any out (lazy.cuh). Downward, what is added and subtracted is a product; upward
// it is trimmed. Only the last pass upward gives canonical results.
//
// Barriers: those of straight.cuh.
#pragma once
#include "passes.cuh"

// Of the step over the top field of a whole transform, without a coset, two factors are 1. Downward
// it is given canonical numbers.
constexpr uint32_t PLAIN = 1;

template <int K> FN Factor<K> load_merged_factor(const Quad* entry, uint32_t f) {
    Factor<K> factor;
#pragma unroll
    for (uint32_t j = 0; j < 2 * K; j++) factor.halves[j] = entry[8 * (2 * K * f + j)];
    return factor;
}
// Two stages on four elements.
template <int K> FN void split_by_four(Fr* x, const Quad* entry, bool plain) {
    int u = ANY, v = PRODUCT;
    if (!plain) {
        const Factor<K> factor = load_merged_factor<K>(entry, 0);
        x[2] = mul_constant<K>(x[2], factor), x[3] = mul_constant<K>(x[3], factor);
    }
    butterfly(x[0], x[2], u, v);
    u = ANY, v = PRODUCT, butterfly(x[1], x[3], u, v);
    if (!plain) x[1] = mul_constant<K>(x[1], load_merged_factor<K>(entry, 1));
    u = ANY, v = PRODUCT, butterfly(x[0], x[1], u, v);
    x[3] = mul_constant<K>(x[3], load_merged_factor<K>(entry, 2));
    u = ANY, v = PRODUCT, butterfly(x[2], x[3], u, v);
}

// The transpose. FRESH: what comes in is below 2 r; MAYBE_PLAIN: whether `plain` may be true.
template <int K, bool FRESH, bool MAYBE_PLAIN>
FN void join_by_four(Fr* x, const Quad* entry, bool plain) {
    constexpr int GIVEN = FRESH ? BELOW_2R : ANY, ADDED = FRESH ? BELOW_2R : TRIMMED;
    plain = plain && MAYBE_PLAIN;
    if (!FRESH) trim(x[1]), trim(x[3]);
    int u = GIVEN, v = ADDED;
    butterfly(x[0], x[1], u, v);
    u = GIVEN, v = ADDED, butterfly(x[2], x[3], u, v);
    if (!plain) x[1] = mul_constant<K>(x[1], load_merged_factor<K>(entry, 1));
    x[3] = mul_constant<K>(x[3], load_merged_factor<K>(entry, 2));
    trim(x[2]);
    u = ANY, v = TRIMMED, butterfly(x[0], x[2], u, v);
    u = MAYBE_PLAIN ? ANY : PRODUCT, v = PRODUCT, butterfly(x[1], x[3], u, v);
    if (plain) return;
    const Factor<K> factor = load_merged_factor<K>(entry, 0);
    x[2] = mul_constant<K>(x[2], factor), x[3] = mul_constant<K>(x[3], factor);
}

// The blocks of a pass before their steps downward: which one a thread block has, of how many.
struct Blocks {
    const Quad* table;
    uint32_t number, lg_count;

    // The factors of a step for the block that has tile index q.
    template <int K> FN const Quad* entry(uint32_t step, uint32_t q, uint32_t lg_block) const {
        const uint32_t room = 1u << (lg_count < 3 ? 3 : lg_count);
        const uint32_t block = number << 2 * step | q >> lg_block;
        return table + (2 * K * ((room << 2 * step) - room) + 48 * K * (block / 8) + block % 8);
    }
};
template <int K, int STEPS, int SHIFT>
FN void descend_merged(Fr* x, Quad* tile, const Blocks& blocks, bool plain) {
    constexpr uint32_t TOP = 2 * (STEPS - 1);
    uint32_t first = first_index<2>(threadIdx.x, TOP + SHIFT), at = place(first);
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t o = TOP - 2 * step;
        const Quad* const entry = blocks.entry<K>(step, first, o + 2 + SHIFT);
        split_by_four<K>(x, entry, plain && step == 0);
        if (step == STEPS - 1) return;
        if (step > 0) __syncthreads(); // all have read what was put before
        put<2>(tile, at, o + SHIFT, 0, x);
        first = first_index<2>(threadIdx.x, o - 2 + SHIFT), at = place(first);
        __syncthreads();
        get<2>(tile, at, o - 2 + SHIFT, 0, x);
    }
}

template <int K, int STEPS, int SHIFT, bool FRESH>
FN void ascend_merged(Fr* x, Quad* tile, const Blocks& blocks, bool plain) {
    constexpr uint32_t TOP = 2 * (STEPS - 1);
    uint32_t first = first_index<2>(threadIdx.x, SHIFT), at = place(first);
    const Quad* entry = blocks.entry<K>(STEPS - 1, first, 2 + SHIFT);
    join_by_four<K, FRESH, false>(x, entry, false);
#pragma unroll
    for (uint32_t o = 2; o <= TOP; o += 2) {
        if (o > 2) __syncthreads(); // all have read what was put before
        put<2>(tile, at, o - 2 + SHIFT, 0, x);
        first = first_index<2>(threadIdx.x, o + SHIFT), at = place(first);
        __syncthreads();
        get<2>(tile, at, o + SHIFT, 0, x);
        entry = blocks.entry<K>((TOP - o) / 2, first, o + 2 + SHIFT);
        if (o < TOP)
            join_by_four<K, false, false>(x, entry, false);
        else
            join_by_four<K, false, true>(x, entry, plain);
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

// The same upward. B: of the factors before the pass.
template <int R, int C, int B>
FN void ascend_merged_columns(const Quad* in, Quad* out, Quad* tile, const Quad* table,
                              const Quad* border, uint32_t lg_n, uint32_t lg_block, bool plain) {
    constexpr int K = 4;
    const Columns columns(lg_block, R, C);
    const uint64_t in_transform = (uint64_t(1) << lg_n) - 1;
    Fr x[4];
    const uint64_t from = columns.place(first_index<2>(threadIdx.x, C));
    const Quad* const factors = border + 2 * B * (from & in_transform);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) x[e] = load_element(in, from + (e << columns.lg_s));
    if constexpr (B > 0) {
#pragma unroll
        for (uint64_t e = 0; e < 4; e++) {
            x[e] = times_border_factor<B>(x[e], factors + (2 * B * e << columns.lg_s));
        }
    }
    const uint32_t number = uint32_t((columns.block & in_transform) >> lg_block);
    ascend_merged<K, R / 2, C, (B > 0)>(x, tile, {table, number, lg_n - lg_block}, plain);
    const uint64_t to = columns.place(first_index<2>(threadIdx.x, R - 2 + C));
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if (lg_block == lg_n) x[e] = canonical(x[e]);
        store_element(out, to + (e << (R - 2 + columns.lg_s)), x[e]);
    }
}
