// Transforms of 2, 4 or 8 elements in a thread's registers. Twiddles are 8th roots of unity, with
// eight multiples each as immediates.
//
// Inputs are below 2 r, outputs are any. A factor 1 costs no product.
#pragma once
#include "../params/roots.cuh"
#include "lazy.cuh"

struct EighthRoot {
    int exponent; // 1, 2, 3
    FN uint32_t operator()(int k, int j) const { return FR_ROOTS_8[8 * exponent - 8 + k][j]; }
};
// The low 1, 2 or 3 bits, reversed. Not a loop: nvcc would evaluate it on the device.
constexpr FN uint32_t reverse_small(uint32_t x, int bits) {
    return bits == 1 ? x : bits == 2 ? (x & 1) << 1 | x >> 1 : (x & 1) << 2 | (x & 2) | x >> 2;
}
// Prepares x_v for a butterfly: multiplies by root_8^exponent, or reduces below 2 r.
FN void prepare(Fr& x, int& bound, int exponent) {
    if (exponent) {
        x = mul_constant<8>(x, EighthRoot{exponent});
        bound = PRODUCT;
    } else if (bound > BELOW_2R) {
        trim(x);
        bound = TRIMMED;
    }
}
// DIF: natural order to bit-reversed. Stage t pairs elements 2^(E-1-t) apart; its block b
// multiplies by the root of order 2^(t+1) to b's t bits reversed, which is the root of order 8 to
// b's two bits reversed. `first` and `others` bound the input; x_0 may be any.
template <int E>
FN void dif_in_registers(Fr* x, int first = BELOW_2R, int others = BELOW_2R) {
    int bounds[1 << E];
#pragma unroll
    for (int i = 0; i < 1 << E; i++) bounds[i] = i ? others : first;
#pragma unroll
    for (int t = 0; t < E; t++) {
        const int half = 1 << (E - 1 - t);
#pragma unroll
        for (int b = 0; b < 1 << t; b++) {
#pragma unroll
            for (int i = 0; i < half; i++) {
                const int u = 2 * half * b + i, v = u + half;
                prepare(x[v], bounds[v], int(reverse_small(b, 2)));
                butterfly(x[u], x[v], bounds[u], bounds[v]);
            }
        }
    }
}
// DIT: bit-reversed order to natural, the transpose. Stage t pairs elements 2^t apart; element i of
// a half block is multiplied by the i-th power of the root of order 2^(t+1). x_0 is never
// multiplied and never needs to be below 2 r; `first` and `others` bound the input.
template <int E>
FN void dit_in_registers(Fr* x, int first = BELOW_2R, int others = BELOW_2R) {
    int bounds[1 << E];
#pragma unroll
    for (int i = 0; i < 1 << E; i++) bounds[i] = i ? others : first;
#pragma unroll
    for (int t = 0; t < E; t++) {
        const int half = 1 << t;
#pragma unroll
        for (int b = 0; b < 1 << (E - 1 - t); b++) {
#pragma unroll
            for (int i = 0; i < half; i++) {
                const int u = 2 * half * b + i, v = u + half;
                prepare(x[v], bounds[v], i << 2 >> t);
                butterfly(x[u], x[v], bounds[u], bounds[v]);
            }
        }
    }
}
