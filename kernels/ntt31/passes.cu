// NTTs over fields of a prime below 2^31, in passes of 1 to 10 stages.
//
// Launch: a block of 2^(S + C - ceil(S / 2)) threads per tile of 2^(S + C) words, which are its
// dynamic shared memory. Grid: words / tile, rounded up for single passes. lg_c of a stage count:
// min(5, 14 - S). Columns' passes need 2^C columns, last passes 2^C blocks.
//
//   in, out    words below p; the same memory, except if an order is not that of DIF
//              (INPUT_REVERSED, OUTPUT_NATURAL), where the pass is out of place
//   twiddles   w^(low * reversed(l)) at l << floor(S / 2) | low, w of order 2^S
//   starts, steps, factors: see pass.cuh
#include "pass.cuh"

#define LG_C(S) (S > 9 ? 14 - S : 5)
#define LG_THREADS(S) (S + LG_C(S) - (S + 1) / 2)

#define PASSES31(S)                                                                               \
    KERNEL(1 << LG_THREADS(S))                                                                    \
    ntt31_columns_##S(const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,               \
                      const uint32_t* starts, const uint32_t* steps, const Twiddle31* factors,    \
                      uint32_t lg_block, uint32_t flags, const Prime31 f) {                       \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        columns_pass<S, LG_C(S)>(tile, in, out, twiddles, starts, steps, factors, lg_block,       \
                                 flags, f);                                                       \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_columns_##S);                                                             \
    KERNEL(1 << LG_THREADS(S))                                                                    \
    ntt31_last_##S(const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,                  \
                   const Twiddle31* factors, uint32_t lg_n, uint32_t flags, const Prime31 f) {    \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        last_pass<S, LG_C(S)>(tile, in, out, twiddles, factors, lg_n, flags, f);                  \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_last_##S)

#define SINGLE31(S)                                                                              \
    KERNEL(1 << LG_THREADS(S))                                                                   \
    ntt31_single_##S(const uint32_t* in, uint32_t* out, const Twiddle31* twiddles,               \
                     const Twiddle31* before, const Twiddle31* after, uint32_t rows,             \
                     uint32_t flags, const Prime31 f) {                                          \
        DYNAMIC_SHARED(uint32_t, tile);                                                          \
        single_pass<S, LG_C(S)>(tile, in, out, twiddles, before, after, rows, flags, f);         \
    }                                                                                            \
    EXPORT_KERNEL(ntt31_single_##S)

SINGLE31(1);
SINGLE31(2);
SINGLE31(3);
SINGLE31(4);
SINGLE31(5);
SINGLE31(6);
SINGLE31(7);
SINGLE31(8);
SINGLE31(9);
SINGLE31(10);
PASSES31(5);
PASSES31(6);
PASSES31(7);
PASSES31(8);
PASSES31(9);
PASSES31(10);
