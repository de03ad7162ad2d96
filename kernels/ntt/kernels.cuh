// The kernels of passes, for dif.cu and dit.cu. Names end in eE, 2^E elements per thread,
// and bB, multiples per inter-pass twiddle. Those for one tile shape have rR, cC, lg_r and lg_c,
// before that and ignore the arguments for these.
//
// Launch: grid = elements / tile, block = tile / 2^E threads, 32 bytes of dynamic shared memory per
// tile element. A tile has 2^(lg_r + lg_c) elements, but shared memory is for at least eight. lg_r
// is a multiple of E, at most 10; rows' kernels need at least two threads.
//
//   in, out        elements, 32 bytes each, canonical if the first pass reads them; may be the
//                  same, except in BIT_REVERSED passes of transforms of more than one pass
//   tile_twiddles  twiddles of the steps: steps.cuh, twiddles.cuh
//   row_factors    2^lg_r entries in planes, for ROWS_FIRST and ROWS_LAST
//   inter_pass     twiddles between passes (columns' kernels): twiddles.cuh;
//                  lg_low <= lg_block - lg_r
//   lg_c           columns' kernels: at most lg_block - lg_r; rows' kernels in transforms of more
//                  than one pass: at most lg_n - lg_r
//   count          total elements (rows' kernels); whole tiles for kernels of one shape
//   flags          steps.cuh. Kernels of one shape support only some, see below
//
// Threads. Four or eight elements per thread take 128 registers, so 16 warps are resident for any
// block size; that is as fast as 24 with fewer elements (benches/experiments/ntt.md). Kernels of
// two elements are for transforms that leave a device idle.
#pragma once
#include "passes.cuh"

#define COLUMNS_PASS(name, body, E, K, B, ...) \
    KERNEL(__VA_ARGS__) \
    name(const Quad* in, Quad* out, const Quad* tile_twiddles, const Quad* row_factors, \
         const Quad* inter_pass, uint32_t lg_block, uint32_t lg_r, uint32_t lg_c, uint32_t lg_low, \
         uint32_t flags) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        const TileSteps steps = {tile, tile_twiddles, row_factors, lg_r, flags, lg_c}; \
        const InterPassTwiddles factors = {inter_pass, lg_r, lg_block - lg_r, lg_low}; \
        body<E, K, B, 0>(in, out, steps, factors, TileColumns(lg_block, lg_r, lg_c)); \
    } \
    EXPORT_KERNEL(name)

#define ROWS_PASS(name, body, E, K, ...) \
    KERNEL(__VA_ARGS__) \
    name(const Quad* in, Quad* out, const Quad* tile_twiddles, const Quad* row_factors, \
         uint32_t lg_n, uint32_t lg_r, uint32_t lg_c, uint32_t flags, uint64_t count) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        const TileSteps steps = {tile, tile_twiddles, row_factors, lg_r, flags, 0}; \
        body<E, K, 0>(in, out, steps, TileRows{count, lg_n, lg_r, lg_c}); \
    } \
    EXPORT_KERNEL(name)

// Flags that kernels of one shape support. In transforms of several passes, ROWS_FIRST scales the
// input of the first pass, ROWS_LAST the output of the last. SINGLE_PASS: a whole transform, unless
// it has a coset in the opposite direction.
constexpr uint32_t DIF_COLUMNS = INVERSE | ROWS_FIRST;
constexpr uint32_t DIF_ROWS = INVERSE | ROWS_LAST | BIT_REVERSED;
constexpr uint32_t DIF_SINGLE_PASS = DIF_ROWS | TOP_SCALED;
constexpr uint32_t DIT_COLUMNS = INVERSE | ROWS_LAST | CANONICAL | BIT_REVERSED;
constexpr uint32_t DIT_ROWS = INVERSE | ROWS_FIRST;
constexpr uint32_t DIT_SINGLE_PASS = DIT_ROWS | TOP_SCALED | CANONICAL | BIT_REVERSED;

#define SHAPED_COLUMNS(decimation, allowed, R, C, E, K, B, ...) \
    KERNEL(__VA_ARGS__) \
    ntt_##decimation##_columns_r##R##_c##C##_e##E##_b##B( \
        const Quad* in, Quad* out, const Quad* tile_twiddles, const Quad* row_factors, \
        const Quad* inter_pass, uint32_t lg_block, uint32_t, uint32_t, uint32_t lg_low, \
        uint32_t flags) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        const TileSteps steps = {tile, tile_twiddles, row_factors, R, flags & allowed, C}; \
        const InterPassTwiddles factors = {inter_pass, R, lg_block - R, lg_low}; \
        decimation##_columns<E, K, B, R / E>(in, out, steps, factors, \
                                             TileColumns(lg_block, R, C)); \
    } \
    EXPORT_KERNEL(ntt_##decimation##_columns_r##R##_c##C##_e##E##_b##B)

#define SHAPED_ROWS(decimation, allowed, R, C, E, K, ...) \
    KERNEL(__VA_ARGS__) \
    ntt_##decimation##_rows_r##R##_c##C##_e##E( \
        const Quad* in, Quad* out, const Quad* tile_twiddles, const Quad* row_factors, \
        uint32_t lg_n, uint32_t, uint32_t, uint32_t flags, uint64_t count) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        const TileSteps steps = {tile, tile_twiddles, row_factors, R, flags & allowed, 0}; \
        decimation##_rows<E, K, R / E>(in, out, steps, TileRows{count, lg_n, R, C}); \
    } \
    EXPORT_KERNEL(ntt_##decimation##_rows_r##R##_c##C##_e##E)
