// Columns' passes with fused twiddles: no twiddles between steps or between passes, and a coset
// costs products only in the step over the top field.
//
// In DIF, a block of M elements is a polynomial modulo X^M - s. A butterfly splits it by a
// square root c of s into u + c v and u - c v, modulo X^(M/2) - c and X^(M/2) + c: one product, by
// a factor that the whole block shares. Block B of 2^t in its transform has c = (g w^rev(B))^(M/2),
// with rev of t bits, the coset's generator g and w of order 2^lg_n. So a fused pass takes half a
// product per element and stage, 3 for radix 2^6; steps.cuh takes 3/8, plus one for the inter-pass
// twiddle: 3.25.
//
// The rows' pass at the end may continue in this way: fused_rows.cuh. Or, if the twiddles of all
// blocks take too much memory bandwidth, it has no fused twiddles: the last fused pass
// multiplies element k of block B by (g w^rev(B))^k, from a table for the whole transform.
//
// DIT is the transpose, with the same tables: u and v become u + v and c (u - v), and the
// inter-pass twiddle comes first. Powers of g then multiply the output.
//
// Tables. A step over 2^t blocks needs three twiddles for each B: c of B, and the next stage's c of
// 2 B and 2 B + 1. Entries are grouped by eight blocks, so that one address serves all: half h of
// multiple j of twiddle f of block B is at [48 K (B / 8) + 8 (2 (f K + j) + h) + B % 8]. Steps
// follow each other; each has space for at least eight blocks.
//
// Ranges (lazy.cuh). DIF: any in, any out; the second operand of each butterfly is a product.
// DIT: differences are multiplied and sums trimmed, so all values are about r: canonical numbers
// and products are below r (1 + 2^-29), and a trimmed sum exceeds r by no more than both its terms
// together, or 2^-30. That excess doubles with each stage of sums of sums. At most 22 of these
// follow a product or canonical numbers, which gives r (1 + 2^-7). Only the last DIT pass stores
// canonical results.
//
// Barriers: those of unrolled_steps.cuh.
#pragma once
#include "passes.cuh"

template <int K> FN Twiddle<K> load_fused_twiddle(const Quad* entry, uint32_t f) {
    Twiddle<K> factor;
#pragma unroll
    for (uint32_t j = 0; j < 2 * K; j++) factor.halves[j] = entry[8 * (2 * K * f + j)];
    return factor;
}
// Two stages on four elements. `unit_twiddles`: in the step over the top field of a whole transform
// without a coset, two twiddles are 1; in DIF its input is canonical.
template <int K>
FN void dif_radix4_fused(Fr* x, const Twiddle<K>& factor, const Quad* entry, bool unit_twiddles) {
    int u = ANY, v = PRODUCT;
    if (!unit_twiddles) x[2] = mul_constant<K>(x[2], factor), x[3] = mul_constant<K>(x[3], factor);
    butterfly(x[0], x[2], u, v);
    u = ANY, v = PRODUCT, butterfly(x[1], x[3], u, v);
    if (!unit_twiddles) x[1] = mul_constant<K>(x[1], load_fused_twiddle<K>(entry, 1));
    u = ANY, v = PRODUCT, butterfly(x[0], x[1], u, v);
    x[3] = mul_constant<K>(x[3], load_fused_twiddle<K>(entry, 2));
    u = ANY, v = PRODUCT, butterfly(x[2], x[3], u, v);
}

// u, v = u + v, u - v for values of about r; u is then about r and v below 2 r.
FN void add_subtract(Fr& u, Fr& v) {
    ASSERT_RANGE(ratio(u) < ABOUT_R * 1e-3 && ratio(v) < ABOUT_R * 1e-3);
    int u_bound = ABOUT_R, v_bound = ABOUT_R;
    butterfly(u, v, u_bound, v_bound);
    trim(u);
}
// The transpose of dif_radix4_fused. MAYBE_UNIT_TWIDDLES: whether `unit_twiddles` may be true.
template <int K, bool MAYBE_UNIT_TWIDDLES>
FN void dit_radix4_fused(Fr* x, const Quad* entry, bool unit_twiddles) {
    unit_twiddles = unit_twiddles && MAYBE_UNIT_TWIDDLES;
    add_subtract(x[0], x[1]), add_subtract(x[2], x[3]);
    if (unit_twiddles)
        trim(x[1]);
    else
        x[1] = mul_constant<K>(x[1], load_fused_twiddle<K>(entry, 1));
    x[3] = mul_constant<K>(x[3], load_fused_twiddle<K>(entry, 2));
    add_subtract(x[0], x[2]), add_subtract(x[1], x[3]);
    if (unit_twiddles) return;
    const Twiddle<K> factor = load_fused_twiddle<K>(entry, 0);
    x[2] = mul_constant<K>(x[2], factor), x[3] = mul_constant<K>(x[3], factor);
}

// The last two stages of a transform, which end in single elements. In a block of four, element e
// is multiplied by the e-th power of a fourth root of s, then only by fourth roots of unity: one
// product with eight multiples and three others, where dif_radix4_fused has four. `entry` holds the
// powers, separate for each thread. They are fetched all at once if registers allow.
template <int K> struct FinalTwiddles {
    static constexpr int FETCHED = K > 2 ? 1 : 3;
    Twiddle<K> factors[FETCHED];
    FN void fetch(const Quad* entry) {
#pragma unroll
        for (int f = 0; f < FETCHED; f++) factors[f] = load_fused_twiddle<K>(entry, uint32_t(f));
    }
    FN void apply(Fr* x, const Quad* entry) const {
#pragma unroll
        for (int f = 0; f < 3; f++) {
            if (f < FETCHED)
                x[f + 1] = mul_constant<K>(x[f + 1], factors[f < FETCHED ? f : 0]);
            else
                x[f + 1] = mul_constant<K>(x[f + 1], load_fused_twiddle<K>(entry, uint32_t(f)));
        }
    }
};
template <int K>
FN void dif_final_radix4(Fr* x, const FinalTwiddles<K>& powers, const Quad* entry) {
    powers.apply(x, entry);
    dif_in_registers<2>(x, ANY, PRODUCT);
}
// The transpose of dif_final_radix4.
template <int K> FN void dit_first_radix4(Fr* x, const Quad* entry) {
    add_subtract(x[0], x[1]), add_subtract(x[2], x[3]);
    x[3] = mul_constant<8>(x[3], EighthRoot{2});
    add_subtract(x[0], x[2]);
    int u = BELOW_2R, v = PRODUCT;
    butterfly(x[1], x[3], u, v);
    FinalTwiddles<K> powers;
    powers.fetch(entry), powers.apply(x, entry);
}

constexpr int MULTIPLES = 4; // multiples of each twiddle, except the last step's

// Twiddles for this thread's block: `number` of the 2^lg_count blocks that a DIF pass begins with.
struct FusedTwiddleTable {
    const Quad* table;
    uint32_t number, lg_count;

    // The twiddles of a step, K multiples each, for the block that contains tile index q.
    template <int K> FN const Quad* entry(uint32_t step, uint32_t q, uint32_t lg_block) const {
        const uint32_t size = 1u << (lg_count < 3 ? 3 : lg_count);
        const uint32_t block = number << 2 * step | q >> lg_block;
        const uint32_t before = 2 * MULTIPLES * ((size << 2 * step) - size);
        return table + (before + 48 * K * (block / 8) + block % 8);
    }
};
// LAST_MULTIPLES: multiples of the twiddles of a final step that ends in single elements; 0: no
// such step.
template <int STEPS, int SHIFT, int LAST_MULTIPLES>
FN void dif_fused(Fr* x, Quad* tile, const FusedTwiddleTable& twiddles, bool unit_twiddles) {
    constexpr uint32_t TOP = 2 * (STEPS - 1), ROW = (1u << (2 * STEPS + SHIFT)) - 1;
    uint32_t first = first_index<2>(threadIdx.x, TOP + SHIFT), at = place(first);
    const Quad* entry = twiddles.entry<MULTIPLES>(0, first & ROW, TOP + 2 + SHIFT);
    Twiddle<MULTIPLES> factor;
    FinalTwiddles<LAST_MULTIPLES ? LAST_MULTIPLES : MULTIPLES> last;
    if (!unit_twiddles) factor = load_fused_twiddle<MULTIPLES>(entry, 0);
#pragma unroll
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t o = TOP - 2 * step;
        if (LAST_MULTIPLES && o == 0)
            dif_final_radix4(x, last, entry);
        else
            dif_radix4_fused(x, factor, entry, unit_twiddles && step == 0);
        if (o == 0) return;
        if (step > 0) __syncthreads(); // all have read what was stored before
        put_in_tile<2>(tile, at, o + SHIFT, 0, x);
        first = first_index<2>(threadIdx.x, o - 2 + SHIFT), at = place(first);
        // The fetch overlaps the exchange.
        if (LAST_MULTIPLES && o == 2) {
            entry = twiddles.entry<LAST_MULTIPLES>(step + 1, first & ROW, 2);
            last.fetch(entry);
        } else {
            entry = twiddles.entry<MULTIPLES>(step + 1, first & ROW, o + SHIFT);
            factor = load_fused_twiddle<MULTIPLES>(entry, 0);
        }
        __syncthreads();
        get_from_tile<2>(tile, at, o - 2 + SHIFT, 0, x);
    }
}

// MAYBE_UNIT_TWIDDLES: for the last step. With LAST_MULTIPLES, other threads may still be reading
// the tile.
template <int STEPS, int SHIFT, int LAST_MULTIPLES, bool MAYBE_UNIT_TWIDDLES>
FN void dit_fused(Fr* x, Quad* tile, const FusedTwiddleTable& twiddles, bool unit_twiddles) {
    constexpr uint32_t TOP = 2 * (STEPS - 1), ROW = (1u << (2 * STEPS + SHIFT)) - 1;
    uint32_t first = first_index<2>(threadIdx.x, SHIFT), at = place(first);
    constexpr int FIRST_MULTIPLES = LAST_MULTIPLES ? LAST_MULTIPLES : MULTIPLES;
    const Quad* entry = twiddles.entry<FIRST_MULTIPLES>(STEPS - 1, first & ROW, 2 + SHIFT);
    if constexpr (LAST_MULTIPLES > 0)
        dit_first_radix4<LAST_MULTIPLES>(x, entry);
    else
        dit_radix4_fused<MULTIPLES, false>(x, entry, false);
#pragma unroll
    for (uint32_t o = 2; o <= TOP; o += 2) {
        if (o > 2 || LAST_MULTIPLES) __syncthreads(); // all have read what was stored before
        put_in_tile<2>(tile, at, o - 2 + SHIFT, 0, x);
        first = first_index<2>(threadIdx.x, o + SHIFT), at = place(first);
        __syncthreads();
        get_from_tile<2>(tile, at, o + SHIFT, 0, x);
        entry = twiddles.entry<MULTIPLES>((TOP - o) / 2, first & ROW, o + 2 + SHIFT);
        if (o < TOP)
            dit_radix4_fused<MULTIPLES, false>(x, entry, false);
        else
            dit_radix4_fused<MULTIPLES, MAYBE_UNIT_TWIDDLES>(x, entry, unit_twiddles);
    }
}

// Radix 2^R, 2^C columns. B: multiples of the inter-pass twiddles after the pass; 0: none.
template <int R, int C, int B>
FN void dif_fused_columns(const Quad* in, Quad* out, Quad* tile, const Quad* table,
                          const Quad* inter_pass, uint32_t lg_n, uint32_t lg_block,
                          bool unit_twiddles) {
    const TileColumns columns(lg_block, R, C);
    const uint64_t in_transform = (uint64_t(1) << lg_n) - 1;
    Fr x[4];
    const uint64_t from = columns.place(first_index<2>(threadIdx.x, R - 2 + C));
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        x[e] = load_element(in, from + (e << (R - 2 + columns.lg_s)));
    }
    const uint64_t to = columns.place(first_index<2>(threadIdx.x, C));
    const Quad* const factors = inter_pass + 2 * B * (to & in_transform);
    if (B > 0) {
#pragma unroll
        for (uint64_t e = 0; e < 4; e++) prefetch(factors + (2 * B * e << columns.lg_s));
    }
    const uint32_t number = uint32_t((columns.block & in_transform) >> lg_block);
    dif_fused<R / 2, C, 0>(x, tile, {table, number, lg_n - lg_block}, unit_twiddles);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if constexpr (B > 0) {
            x[e] = apply_inter_pass_twiddle<B>(x[e], factors + (2 * B * e << columns.lg_s));
        }
        store_element(out, to + (e << columns.lg_s), x[e]);
    }
}

// The DIT pass. B: multiples of the inter-pass twiddles before the pass; 0: none.
template <int R, int C, int B>
FN void dit_fused_columns(const Quad* in, Quad* out, Quad* tile, const Quad* table,
                          const Quad* inter_pass, uint32_t lg_n, uint32_t lg_block,
                          bool unit_twiddles) {
    const TileColumns columns(lg_block, R, C);
    const uint64_t in_transform = (uint64_t(1) << lg_n) - 1;
    Fr x[4];
    const uint64_t from = columns.place(first_index<2>(threadIdx.x, C));
    const Quad* const factors = inter_pass + 2 * B * (from & in_transform);
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) x[e] = load_element(in, from + (e << columns.lg_s));
    if constexpr (B > 0) {
#pragma unroll
        for (uint64_t e = 0; e < 4; e++) {
            x[e] = apply_inter_pass_twiddle<B>(x[e], factors + (2 * B * e << columns.lg_s));
            if (B == 1) trim(x[e]); // below 2 r
        }
    }
    const uint32_t number = uint32_t((columns.block & in_transform) >> lg_block);
    dit_fused<R / 2, C, 0, true>(x, tile, {table, number, lg_n - lg_block}, unit_twiddles);
    const uint64_t to = columns.place(first_index<2>(threadIdx.x, R - 2 + C));
#pragma unroll
    for (uint64_t e = 0; e < 4; e++) {
        if (lg_block == lg_n) finish(x[e]);
        store_element(out, to + (e << (R - 2 + columns.lg_s)), x[e]);
    }
}
