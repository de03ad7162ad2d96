// Tables of twiddle factors, each as several precomputed multiples (../field/fr.cuh); products.
//
// A step's table with K multiples is stored in planes of 16-byte halves, so that lanes read
// neighbours: half h of multiple k of entry m is at [(2 k + h) PLANE + m]. The twiddles
// between passes, InterPassTwiddles, are read once per transform, so an entry's 2 K halves are
// contiguous.
#pragma once
#include "registers.cuh"
#include "tile.cuh"

// Entries per plane: indices below 2^11 are used (passes.cuh); eight more keep planes from mapping
// to the same cache lines.
constexpr uint32_t PLANE = 2048 + 8;

template <int K> struct Twiddle {
    Quad halves[2 * K];
    FN uint32_t operator()(int multiple, int j) const {
        return halves[2 * uint32_t(multiple) + uint32_t(j) / 4].w[uint32_t(j) % 4];
    }
};
template <int K> FN Twiddle<K> load_step_twiddle(const Quad* entry) {
    Twiddle<K> factor;
#pragma unroll
    for (uint32_t j = 0; j < 2 * K; j++) factor.halves[j] = entry[j * PLANE];
    return factor;
}
template <int K> FN Fr apply_step_twiddle(const Fr& x, const Quad* entry) {
    return mul_constant<K>(x, load_step_twiddle<K>(entry));
}
template <int K> FN Fr apply_inter_pass_twiddle(const Fr& x, const Quad* entry) {
    Twiddle<K> factor;
#pragma unroll
    for (uint32_t j = 0; j < 2 * K; j++) load16_once(factor.halves[j].w, entry + j);
    return mul_constant<K>(x, factor);
}

// x[e] *= entry[slot of e << field]; the result is below 2 r. Unless `whole`, the twiddle of slot 0
// is 1, and without TRIM x[0] then remains unreduced.
template <int E, int K, bool TRIM = true>
FN void apply_step_twiddles(Fr* x, const Quad* entry, uint32_t field, uint32_t inverse_mask,
                            bool whole) {
    if (whole)
        x[0] = apply_step_twiddle<K>(x[0], entry);
    else if (TRIM)
        trim(x[0]);
    uint32_t offsets[1 << E];
    slots<E>(offsets, field, inverse_mask);
#pragma unroll
    for (int e = 1; e < 1 << E; e++) x[e] = apply_step_twiddle<K>(x[e], entry + offsets[e]);
}

// Twiddle factors between passes: T[p][k] for row p and column k < 2^lg_columns of a block. Either
// one full table, or, if that needs too much memory, T[p][k] = V[p][k mod 2^low] U[p][k / 2^low]:
// V's entries, then U's. `lg_low` = lg_columns means a full table.
struct InterPassTwiddles {
    const Quad* table;
    uint32_t lg_rows, lg_columns, lg_low;
};
// x[e] *= T[p + (slot of e)][k].
template <int E, int K>
FN void apply_inter_pass_twiddles(Fr* x, const InterPassTwiddles& inter_pass, uint32_t p,
                                  uint32_t k, uint32_t inverse_mask) {
    uint32_t rows[1 << E];
    slots<E>(rows, 0, inverse_mask);
    uint32_t width = inter_pass.lg_low, column = k & ((1u << width) - 1);
    const Quad* table = inter_pass.table;
#pragma unroll 1
    while (true) {
        const Quad* const entry = table + 2 * K * ((uint64_t(p) << width) + column);
#pragma unroll
        for (int e = 0; e < 1 << E; e++) {
            x[e] = apply_inter_pass_twiddle<K>(x[e], entry + 2 * K * (uint64_t(rows[e]) << width));
        }
        // Only the largest tables have one multiple, and these are full tables.
        if (K == 1 || table != inter_pass.table || width == inter_pass.lg_columns) return;
        table += uint64_t(2 * K) << (inter_pass.lg_rows + width);
        column = k >> width, width = inter_pass.lg_columns - width;
    }
}
template <int E, int K>
FN void prefetch_inter_pass_twiddles(const InterPassTwiddles& inter_pass, uint32_t p, uint32_t k) {
    if (inter_pass.lg_low < inter_pass.lg_columns) return;
#pragma unroll
    for (uint32_t e = 0; e < 1 << E; e++) {
        prefetch(inter_pass.table + 2 * K * ((uint64_t(p | e) << inter_pass.lg_low) + k));
    }
}
