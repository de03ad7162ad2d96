// The kernels of passes, for descend.cu and ascend.cu. Names end in eE, 2^E elements a thread, and
// bB, kept multiples of border factors; those for tiles of one shape have rR, cC, lg_r and lg_c,
// before that and do not look at what they are given for these.
//
// Launch: grid = elements / tile, block = tile / 2^E threads, 32 bytes of dynamic shared memory for
// each element of the tile, which is 2^(lg_r + lg_c), for eight at least. lg_r is a multiple of E,
// at most 10; rows' kernels take two threads at least.
//
//   in, out     elements, 32 bytes each, canonical where the first pass reads them; the same, but
//               for TURNED passes of transforms of more than one
//   tables      of step factors: steps.cuh, factors.cuh
//   rows        2^lg_r entries in planes, for ROWS_FIRST and ROWS_LAST
//   border      of columns' kernels: factors.cuh; lg_low at most lg_block - lg_r
//   lg_c        of columns' kernels: at most lg_block - lg_r; of rows' in transforms of more than
//               one pass: at most lg_n - lg_r
//   count       elements in all, of rows' kernels; whole tiles for those of one shape
//   flags       steps.cuh. Kernels of one shape heed some only, see below
//
// Threads. Four or eight elements a thread take 128 registers, so 16 warps are resident whatever
// the block; that was as fast as 24 with fewer (2^24 on an H200). Kernels of two elements are for
// transforms that leave a device idle.
#pragma once
#include "passes.cuh"

#define COLUMNS_PASS(name, body, E, K, B, ...)                                                    \
    KERNEL(__VA_ARGS__)                                                                           \
    name(const Quad* in, Quad* out, const Quad* tables, const Quad* rows, const Quad* border,     \
         uint32_t lg_block, uint32_t lg_r, uint32_t lg_c, uint32_t lg_low, uint32_t flags) {      \
        await_predecessor();                                                                      \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        const Steps steps = {tile, tables, rows, lg_r, flags, lg_c};                              \
        const Border factors = {border, lg_r, lg_block - lg_r, lg_low};                           \
        body<E, K, B, 0>(in, out, steps, factors, Columns(lg_block, lg_r, lg_c));                 \
    }                                                                                             \
    EXPORT_KERNEL(name)

#define ROWS_PASS(name, body, E, K, ...)                                                          \
    KERNEL(__VA_ARGS__)                                                                           \
    name(const Quad* in, Quad* out, const Quad* tables, const Quad* rows, uint32_t lg_n,          \
         uint32_t lg_r, uint32_t lg_c, uint32_t flags, uint64_t count) {                          \
        await_predecessor();                                                                      \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        const Steps steps = {tile, tables, rows, lg_r, flags, 0};                                 \
        body<E, K, 0>(in, out, steps, Rows{count, lg_n, lg_r, lg_c});                             \
    }                                                                                             \
    EXPORT_KERNEL(name)

// What a pass of several can be asked for: rows' factors of what is given at the first pass, of
// results at the last one. ALONE: a pass that is all of a transform, but for a coset the other way.
constexpr uint32_t DESCEND_COLUMNS = INVERSE | ROWS_FIRST;
constexpr uint32_t DESCEND_ROWS = INVERSE | ROWS_LAST | TURNED;
constexpr uint32_t DESCEND_ALONE = DESCEND_ROWS | WHOLE;
constexpr uint32_t ASCEND_COLUMNS = INVERSE | ROWS_LAST | CANONICAL | TURNED;
constexpr uint32_t ASCEND_ROWS = INVERSE | ROWS_FIRST;
constexpr uint32_t ASCEND_ALONE = ASCEND_ROWS | WHOLE | CANONICAL | TURNED;

#define SHAPED_COLUMNS(way, heeded, R, C, E, K, B, ...)                                           \
    KERNEL(__VA_ARGS__)                                                                           \
    ntt_##way##_columns_r##R##_c##C##_e##E##_b##B(                                                \
        const Quad* in, Quad* out, const Quad* tables, const Quad* rows, const Quad* border,      \
        uint32_t lg_block, uint32_t, uint32_t, uint32_t lg_low, uint32_t flags) {                 \
        await_predecessor();                                                                      \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        const Steps steps = {tile, tables, rows, R, flags & heeded, C};                           \
        const Border factors = {border, R, lg_block - R, lg_low};                                 \
        way##_columns<E, K, B, R / E>(in, out, steps, factors, Columns(lg_block, R, C));          \
    }                                                                                             \
    EXPORT_KERNEL(ntt_##way##_columns_r##R##_c##C##_e##E##_b##B)

#define SHAPED_ROWS(way, heeded, R, C, E, K, ...)                                                 \
    KERNEL(__VA_ARGS__)                                                                           \
    ntt_##way##_rows_r##R##_c##C##_e##E(                                                          \
        const Quad* in, Quad* out, const Quad* tables, const Quad* rows, uint32_t lg_n, uint32_t, \
        uint32_t, uint32_t flags, uint64_t count) {                                               \
        await_predecessor();                                                                      \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        const Steps steps = {tile, tables, rows, R, flags & heeded, 0};                           \
        way##_rows<E, K, R / E>(in, out, steps, Rows{count, lg_n, R, C});                         \
    }                                                                                             \
    EXPORT_KERNEL(ntt_##way##_rows_r##R##_c##C##_e##E)
