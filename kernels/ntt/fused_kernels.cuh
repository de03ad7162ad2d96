// The kernels of fused passes, for dif_fused.cu and dit_fused.cu. Names end in rR and cC,
// the radix 2^R and 2^C columns or rows of a tile, followed by bB, the multiples of the inter-pass
// twiddles (0: none), or for rows by lL, the multiples of the last step's twiddles.
//
// Launch: grid = elements / 2^(R + C), block = 2^(R + C - 2) threads of four elements, 32 bytes of
// dynamic shared memory per element.
//
//   in, out         elements, 32 bytes each; may be the same, except for BIT_REVERSED rows of
//                   transforms of more than one row; canonical if the first pass is DIT, or DIF and
//                   UNIT_TWIDDLES
//   fused_twiddles  of the pass: fused.cuh, fused_rows.cuh
//   inter_pass      2^lg_n entries of B multiples, each entry's 2 B halves together
//   lg_n            rows: at least 10; for 10 a row of 2^10 may be a whole transform
//   lg_block        log2 of the elements of a block, at least R + C
//   flags           steps.cuh: UNIT_TWIDDLES; for rows also INVERSE, BIT_REVERSED (DIF only) and
//                   DIVIDE_BY_N
#pragma once
#include "fused_rows.cuh"

#define FUSED_COLUMNS(decimation, R, C, B, ...) \
    KERNEL(__VA_ARGS__) \
    ntt_##decimation##_fused_r##R##_c##C##_b##B( \
        const Quad* in, Quad* out, const Quad* fused_twiddles, const Quad* inter_pass, \
        uint32_t lg_n, uint32_t lg_block, uint32_t flags) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        decimation##_fused_columns<R, C, B>(in, out, tile, fused_twiddles, inter_pass, lg_n, \
                                            lg_block, flags & UNIT_TWIDDLES); \
    } \
    EXPORT_KERNEL(ntt_##decimation##_fused_r##R##_c##C##_b##B)

#define FUSED_ROWS(decimation, R, C, L, ...) \
    KERNEL(__VA_ARGS__) \
    ntt_##decimation##_fused_r##R##_c##C##_l##L(const Quad* in, Quad* out, \
                                                const Quad* fused_twiddles, uint32_t lg_n, \
                                                uint32_t flags) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, tile); \
        decimation##_fused_rows<R, C, L>(in, out, tile, fused_twiddles, lg_n, flags); \
    } \
    EXPORT_KERNEL(ntt_##decimation##_fused_r##R##_c##C##_l##L)
