// Columns' passes downward with merged factors, for the tiles of large transforms. Names end in rR
// and bB, the radix 2^R and the kept multiples of the factors after the pass.
//
// Launch: grid = elements / 2^(R + 2), block = 2^R threads of four elements, 32 bytes of dynamic
// shared memory for each element.
//
//   in, out   elements, 32 bytes each; may be the same; canonical where PLAIN
//   tables    of the pass: merged.cuh
//   border    2^lg_n entries of B multiples, each entry's 2 B halves together; not read where B is 0
//   lg_block  elements of a block before the pass, at least R + 2
#include "merged.cuh"

#define MERGED_COLUMNS(R, B, ...)                                                                 \
    KERNEL(__VA_ARGS__)                                                                           \
    ntt_descend_merged_r##R##_b##B(const Quad* in, Quad* out, const Quad* tables,                 \
                                   const Quad* border, uint32_t lg_n, uint32_t lg_block,          \
                                   uint32_t flags) {                                              \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        descend_merged_columns<R, 2, B>(in, out, tile, tables, border, lg_n, lg_block,            \
                                        flags & PLAIN);                                           \
    }                                                                                             \
    EXPORT_KERNEL(ntt_descend_merged_r##R##_b##B)

MERGED_COLUMNS(6, 0, 64, 8);
MERGED_COLUMNS(6, 1, 64, 8);
MERGED_COLUMNS(8, 1, 256, 2);
