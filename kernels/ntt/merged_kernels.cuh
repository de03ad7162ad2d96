// The kernels of merged columns' passes, for descend_merged.cu and ascend_merged.cu. Names end in
// rR and bB, the radix 2^R and the kept multiples of the border's factors; 0: there is no border.
//
// Launch: grid = elements / 2^(R + 2), block = 2^R threads of four elements, 32 bytes of dynamic
// shared memory for each element.
//
//   in, out   elements, 32 bytes each; may be the same; canonical where a first pass downward is
//             PLAIN
//   tables    of the pass: merged.cuh
//   border    2^lg_n entries of B multiples, each entry's 2 B halves together
//   lg_block  elements of a block, at least R + 2
#pragma once
#include "merged.cuh"

#define MERGED_COLUMNS(way, R, B, ...)                                                            \
    KERNEL(__VA_ARGS__)                                                                           \
    ntt_##way##_merged_r##R##_b##B(const Quad* in, Quad* out, const Quad* tables,                 \
                                   const Quad* border, uint32_t lg_n, uint32_t lg_block,          \
                                   uint32_t flags) {                                              \
        DYNAMIC_SHARED(Quad, tile);                                                               \
        way##_merged_columns<R, 2, B>(in, out, tile, tables, border, lg_n, lg_block,              \
                                      flags & PLAIN);                                             \
    }                                                                                             \
    EXPORT_KERNEL(ntt_##way##_merged_r##R##_b##B)
