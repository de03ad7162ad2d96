// Emulates mma.sync, the products of small matrices by a warp.
#pragma once

#include "warp.hpp"

namespace cuda_host {

/// A lane's part of the factors of `binary_mma`.
struct BinaryFactors {
    uint32_t a[4], b[2];
};

} // namespace cuda_host

/// mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc: c[i][j] += the number of k with a 1
/// in row i of the first factor and in column j of the second one. Lane 4 g + t has, of the rows g
/// and g + 8 (a[0] and a[1]) and of column g (b[0]), the bits from 32 t on; in a[2], a[3] and b[1],
/// those from 128 + 32 t on; and of the counts, those of the rows g (c[0], c[1]) and g + 8 (c[2],
/// c[3]) and of the columns 2 t and 2 t + 1.
inline void binary_mma(uint32_t* c, const uint32_t* a, const uint32_t* b,
                       cuda_host::CodeLocation where = cuda_host::CodeLocation::current()) {
    const cuda_host::BinaryFactors own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    cuda_host::BinaryFactors all[32];
    cuda_host::wait_for_warp({cuda_host::WarpExchange::all, ~0u, 0, sizeof(own), &own, all}, where);
    const uint32_t group = cuda_host::lane() / 4, pair = cuda_host::lane() % 4 * 2;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t upper = i / 2, column = pair + i % 2;
        for (uint32_t t = 0; t < 4; t++) {
            const auto& row = all[4 * group + t].a;
            const auto& bits = all[4 * column + t].b;
            c[i] += uint32_t(__builtin_popcount(row[upper] & bits[0]));
            c[i] += uint32_t(__builtin_popcount(row[2 + upper] & bits[1]));
        }
    }
}
