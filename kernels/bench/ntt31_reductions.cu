// Passes of ../ntt31 with other products: columns and rows of a DIF of 2^20 words, and of 2^24,
// from natural order to bit-reversed. Tables are those of ../ntt31/passes.cu in the form that the
// type of the prime multiplies by, `starts` in the form of `multiply_by_power`.
#include "../ntt31/columns.cuh"
#include "../ntt31/rows.cuh"
#include "reductions31.cuh"

template <class Pass, class Prime>
FN void measured_columns(uint32_t* tile, const uint32_t* in, uint32_t* out,
                         const FactorOf31<Prime>* twiddles, const uint32_t* starts,
                         const Steps31<FactorOf31<Prime>>* steps, uint32_t lg_block,
                         const Prime& f) {
    const Pass pass(lg_block);
    const Powers31<Pass, Prime> powers(pass, starts, steps);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.template load<0>(x, in + (pass.block << lg_block));
    Pass::ColumnsTile::frequencies(x, tile, twiddles, f);
    powers.multiply_by(x, f);
    pass.store_reversed(x, out + (pass.block << lg_block));
}

template <class Pass, class Prime>
FN void measured_rows(uint32_t* tile, const uint32_t* in, uint32_t* out,
                      const FactorOf31<Prime>* twiddles, uint64_t rows, const Prime& f) {
    const Pass pass(rows);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_natural(x, in, {Pass::POINTS + 1, Pass::POINTS + 1});
    Pass::RowsTile::frequencies(x, tile, twiddles, f);
    UNROLL for (uint32_t& word : x) word = canonical(word, f);
    pass.store_reversed(x, tile, out);
}

#define COLUMNS(Prime, name, S, C, BLOCKS)                                                         \
    KERNEL(1 << (S + C - 5), BLOCKS)                                                               \
    reduction31_##name##_columns_##S(const uint32_t* in, uint32_t* out,                            \
                                     const FactorOf31<Prime>* twiddles, const uint32_t* starts,    \
                                     const Steps31<FactorOf31<Prime>>* steps, uint32_t lg_block,   \
                                     const Prime f) {                                              \
        DYNAMIC_SHARED(uint32_t, tile);                                                            \
        measured_columns<Columns31<S, C, 5>>(tile, in, out, twiddles, starts, steps, lg_block, f); \
    }                                                                                              \
    EXPORT_KERNEL(reduction31_##name##_columns_##S)
#define ROWS(Prime, name, S, BLOCKS)                                                               \
    KERNEL(1 << (S - 5), BLOCKS)                                                                   \
    reduction31_##name##_rows_##S(const uint32_t* in, uint32_t* out,                               \
                                  const FactorOf31<Prime>* twiddles, uint64_t rows,              \
                                  const Prime f) {                                                 \
        DYNAMIC_SHARED(uint32_t, tile);                                                            \
        measured_rows<Rows31<S, S, 5>>(tile, in, out, twiddles, rows, f);                          \
    }                                                                                              \
    EXPORT_KERNEL(reduction31_##name##_rows_##S)
// The shapes and bounds of the served `wide` kernels.
#define TRANSFORMS(Prime, name)       \
    COLUMNS(Prime, name, 8, 5, 4);    \
    ROWS(Prime, name, 12, 8);         \
    COLUMNS(Prime, name, 10, 4, 2);   \
    ROWS(Prime, name, 14, 2)

TRANSFORMS(Shoup31, shoup);
TRANSFORMS(Harvey31, harvey);
TRANSFORMS(Montgomery31, montgomery);
TRANSFORMS(Plantard31, plantard);
TRANSFORMS(Barrett31, barrett);
TRANSFORMS(BarrettShort31, barrett_short);
TRANSFORMS(Remainder31, remainder);
