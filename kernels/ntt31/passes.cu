// NTTs over fields of a prime below 2^31: passes over columns and rows, DIF from natural order to
// bit-reversed and DIT back. Roots decide the direction.
//
//   lg_n <= 7          small
//   lg_n <= 14         rows_S with S = lg_n
//   more               columns_S passes, then rows_S (DIF); rows_S, then columns_S passes (DIT)
//
// Grid: words / tile, rounded up for rows. A tile of 2^T words is the block's dynamic shared memory;
// a thread has 2^E of them. `wide` kernels suit many words; the others, up to about 2^20.
//
//   in, out            words below p. In natural order at in + t * stride + i, where i < length; in
//                      bit-reversed order adjacent. All passes may be in place. A word of the input
//                      may be any number if `natural_factors` are given.
//   natural_factors    multiply words in natural order, or null; of a pass over columns, of its row
//   reversed_factors   multiply words in bit-reversed order, or null
//   twiddles           of each digit but the last, w^(low * reversed(l)) at l << below | low, where w
//                      is the root of the digit's and the later stages
#include "columns.cuh"
#include "reverse.cuh"
#include "rows.cuh"
#include "small.cuh"

#define COLUMNS31(name, S, C, E, BLOCKS)                                                          \
    KERNEL(1 << (S + C - E), BLOCKS)                                                              \
    ntt31_columns_dif_##name(const uint32_t* in, uint64_t stride, uint32_t length, uint32_t* out, \
                             const Twiddle31* twiddles, const uint32_t* starts,                   \
                             const Steps31<Twiddle31>* steps, const Twiddle31* natural_factors,   \
                             uint32_t lg_block, const Prime31 f) {                                \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        columns_dif<Columns31<S, C, E>>(tile, in, {stride, length}, out,                          \
                             {twiddles, starts, steps, natural_factors}, lg_block, f);            \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_columns_dif_##name);                                                      \
    KERNEL(1 << (S + C - E), BLOCKS)                                                              \
    ntt31_columns_dit_##name(const uint32_t* in, uint32_t* out, uint64_t stride, uint32_t length, \
                             const Twiddle31* twiddles, const uint32_t* starts,                   \
                             const Steps31<Twiddle31>* steps, const Twiddle31* natural_factors,   \
                             uint32_t lg_block, const Prime31 f) {                                \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        columns_dit<Columns31<S, C, E>>(tile, in, out, {stride, length},                          \
                             {twiddles, starts, steps, natural_factors}, lg_block, f);            \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_columns_dit_##name)

#define ROWS31(name, S, T, E, BLOCKS)                                                             \
    KERNEL(1 << (T - E), BLOCKS)                                                                  \
    ntt31_rows_dif_##name(const uint32_t* in, uint64_t stride, uint32_t length, uint32_t* out,    \
                          const Twiddle31* twiddles, const Twiddle31* natural_factors,            \
                          const Twiddle31* reversed_factors, uint64_t rows, const Prime31 f) {    \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        rows_dif<Rows31<S, T, E>>(tile, in, {stride, length}, out, twiddles, natural_factors,     \
                          reversed_factors, rows, f);                                             \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_rows_dif_##name);                                                         \
    KERNEL(1 << (T - E), BLOCKS)                                                                  \
    ntt31_rows_dit_##name(const uint32_t* in, uint32_t* out, uint64_t stride, uint32_t length,    \
                          const Twiddle31* twiddles, const Twiddle31* natural_factors,            \
                          const Twiddle31* reversed_factors, uint64_t rows, const Prime31 f) {    \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        rows_dit<Rows31<S, T, E>>(tile, in, out, {stride, length}, twiddles, natural_factors,     \
                          reversed_factors, rows, f);                                             \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_rows_dit_##name);                                                         \
    KERNEL(1 << (T - E), BLOCKS)                                                                  \
    ntt31_rows_product_##name(                                                                    \
        const uint32_t* in, const Layout31 in_layout, const uint32_t* other, uint32_t* out,       \
        const Layout31 out_layout, const Twiddle31* twiddles, const Twiddle31* natural_factors,   \
        const Twiddle31* inverse_twiddles,                      \
        const Twiddle31* inverse_factors, uint64_t rows, const Prime31 f,                         \
        const Prime31 inverse) {                                                                  \
        DYNAMIC_SHARED(uint32_t, tile);                                                           \
        rows_product<Rows31<S, T, E>>(tile, in, in_layout, other, out, out_layout, twiddles,      \
                              inverse_twiddles, natural_factors, inverse_factors, rows, f,        \
                              inverse);                                                           \
    }                                                                                             \
    EXPORT_KERNEL(ntt31_rows_product_##name)

COLUMNS31(6, 6, 4, 3, 4);
COLUMNS31(7, 7, 4, 4, 6);
COLUMNS31(8, 8, 3, 4, 8);
COLUMNS31(8_wide, 8, 5, 5, 4);
COLUMNS31(9_wide, 9, 4, 5, 4);
COLUMNS31(10_wide, 10, 4, 5, 2);
ROWS31(8, 8, 10, 4, 8);
ROWS31(9, 9, 10, 3, 8);
ROWS31(10, 10, 10, 4, 16);
ROWS31(11, 11, 11, 4, 8);
ROWS31(12, 12, 12, 3, 3);
ROWS31(8_wide, 8, 12, 5, 8);
ROWS31(9_wide, 9, 12, 5, 8);
ROWS31(10_wide, 10, 12, 5, 8);
ROWS31(11_wide, 11, 12, 5, 8);
ROWS31(12_wide, 12, 12, 5, 8);
ROWS31(13_wide, 13, 13, 5, 4);
ROWS31(14_wide, 14, 14, 5, 2);

KERNEL(Small31::THREADS)
ntt31_small_dif(const uint32_t* in, uint64_t stride, uint32_t length, uint32_t* out,
                const Twiddle31* twiddles, const Twiddle31* natural_factors,
                const Twiddle31* reversed_factors, uint32_t lg_n, uint64_t rows, const Prime31 f) {
    SHARED(uint32_t, tile, 1 << Small31::LG_TILE);
    const Small31 pass(f, tile, twiddles, lg_n, rows);
    await_whole_predecessor();
    pass.load(in, {stride, length}, natural_factors);
    pass.frequencies();
    pass.store(out, pass.adjacent(), reversed_factors);
}
EXPORT_KERNEL(ntt31_small_dif);

KERNEL(Small31::THREADS)
ntt31_small_dit(const uint32_t* in, uint32_t* out, uint64_t stride, uint32_t length,
                const Twiddle31* twiddles, const Twiddle31* natural_factors,
                const Twiddle31* reversed_factors, uint32_t lg_n, uint64_t rows, const Prime31 f) {
    SHARED(uint32_t, tile, 1 << Small31::LG_TILE);
    const Small31 pass(f, tile, twiddles, lg_n, rows);
    await_whole_predecessor();
    pass.load(in, pass.adjacent(), reversed_factors);
    pass.points();
    pass.store(out, {stride, length}, natural_factors);
}
EXPORT_KERNEL(ntt31_small_dit);

KERNEL(256)
ntt31_reverse_short_rows(const uint32_t* in, uint32_t* out, uint32_t lg_n, uint64_t words) {
    await_whole_predecessor();
    reverse_short_rows(in, out, lg_n, words);
}
EXPORT_KERNEL(ntt31_reverse_short_rows);

KERNEL(256)
ntt31_reverse_long_rows(const uint32_t* in, uint32_t* out, uint32_t lg_n) {
    SHARED(uint32_t, tile, 32 * 33);
    await_whole_predecessor();
    reverse_long_rows(reinterpret_cast<uint32_t(*)[33]>(tile), in, out, lg_n);
}
EXPORT_KERNEL(ntt31_reverse_long_rows);
