// The powers of a block's root by which a pass over columns multiplies: w^(column * frequency).
#pragma once
#include "tile.cuh"

// w^(column * 2^d) and its square, where 2^d is the number of threads that share a column.
template <class Twiddle> struct alignas(2 * sizeof(Twiddle)) Steps31 {
    Twiddle one, two;
};

struct ColumnTables31 {
    const Twiddle31* twiddles;
    const uint32_t* starts;          // Montgomery form, at thread << lg_columns | column
    const Steps31<Twiddle31>* steps; // at the column
    const Twiddle31* factors;
};

// A thread's frequencies are equally spaced: two chains of products give their powers.
template <class Pass, class Prime> struct Powers31 {
    static constexpr uint32_t K = Pass::ColumnsTile::D::LAST;
    static constexpr uint32_t CHAINS = Pass::ColumnsTile::WORDS >> K;

    uint32_t starts[CHAINS];
    FactorOf31<Prime> one[CHAINS], two[CHAINS];

    FN Powers31(const Pass& pass, const uint32_t* table,
                const Steps31<FactorOf31<Prime>>* steps) {
#pragma unroll
        for (uint32_t g = 0; g < CHAINS; g++) {
            const uint32_t n = threadIdx.x + g * Pass::ColumnsTile::THREADS;
            const uint32_t column = pass.first_column + (n & (Pass::ColumnsTile::LANES - 1));
            const uint64_t thread = n / Pass::ColumnsTile::LANES;
            starts[g] = entry(table + (thread << pass.lg_columns) + column);
            one[g] = entry(&steps[column].one);
            two[g] = entry(&steps[column].two);
        }
    }
    FN void multiply_by(Words31<Pass::LG_WORDS>& x, const Prime& f) const {
#pragma unroll
        for (uint32_t g = 0; g < CHAINS; g++) {
            uint32_t even = starts[g], odd = multiply(even, one[g], f);
#pragma unroll
            for (uint32_t k = 0; k < 1 << K; k += 2) {
                uint32_t& low = x[g << K | reversed(k, K)];
                uint32_t& high = x[g << K | reversed(k + 1, K)];
                low = multiply_by_power(low, even, f);
                high = multiply_by_power(high, odd, f);
                if (k + 2 < 1 << K) {
                    even = multiply(even, two[g], f);
                    odd = multiply(odd, two[g], f);
                }
            }
        }
    }
};
