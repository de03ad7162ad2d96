// Sums of products that are reduced once.
#pragma once
#include "../field.cuh"

// A sum of products of canonical elements; 17 limbs hold 2^34 products.
struct WideSum {
    uint32_t w[17];
};
FN WideSum zero_sum() {
    WideSum sum;
#pragma unroll
    for (int i = 0; i < 17; i++) sum.w[i] = 0;
    return sum;
}
// 64 limb products; reducing each product would add 48.
FN void add_product(WideSum& t, const Fr& a, const Fr& b) {
    uint32_t e[16], o[16];
    first_row<8>(e, o, LimbsOf{a.w}, b.w[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) {
        add_row<8, false, true>(full_chain(e, o, i), open_chain(e, o, i), LimbsOf{a.w}, b.w[i]);
    }
    uint32_t p[16];
    p[0] = e[0];
    p[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < 15; k++) p[k] = addc_cc(e[k], o[k - 1]);
    p[15] = addc(e[15], 0);
    add_words<16>(t.w, t.w, p);
    t.w[16] = addc(t.w[16], 0);
}
