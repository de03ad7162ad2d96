// Karatsuba's product in Fp: 108 products of limbs instead of 144 before the reduction, for a hundred
// additions more. On an H200 it is 8 % faster than mul alone and 1 % inside G1's additions, and needs
// 28 registers more; inside Fp2's product it is 2 to 4 % slower.
#pragma once
#include "fp.cuh"

// t[0..2H) = a b of H limbs each.
template <int H> FN void product_half(uint32_t* t, const uint32_t* a, const uint32_t* b) {
    uint32_t e[2 * H], o[2 * H];
    first_row<H>(e, o, LimbsOf{a}, b[0]);
#pragma unroll
    for (int i = 1; i < H; i++)
        add_row<H, false, true>(full_chain(e, o, i), open_chain(e, o, i), LimbsOf{a}, b[i]);
    t[0] = e[0];
    t[1] = add_cc(e[1], o[0]);
#pragma unroll
    for (int k = 2; k < 2 * H - 1; k++) t[k] = addc_cc(e[k], o[k - 1]);
    t[2 * H - 1] = addc(e[2 * H - 1], 0);
}
// With a = a0 + a1 B and b likewise, the middle term is a0 b0 + a1 b1 - (a0 - a1)(b0 - b1). A
// difference below zero is kept mod B, with a mask that says so.
FN Wide product_karatsuba(const Fp& fa, const Fp& fb) {
    constexpr int N = 12, H = 6;
    const uint32_t *a = fa.w, *b = fb.w;
    Wide wide;
    uint32_t *t = wide.w, z2[N], zm[N], da[H], db[H], mid[N];
    product_half<H>(t, a, b);
    product_half<H>(z2, a + H, b + H);
    sub_words<H>(da, a, a + H);
    const uint32_t negative_a = borrow_mask();
    sub_words<H>(db, b, b + H);
    const uint32_t negative_b = borrow_mask();
    product_half<H>(zm, da, db);
    add_words<N>(mid, t, z2);
    uint32_t top = addc(0, 0);
    sub_words<N>(mid, mid, zm);
    top = subc(top, 0);
    uint32_t masked[H];
#pragma unroll
    for (int i = 0; i < H; i++) masked[i] = db[i] & negative_a;
    add_words<H>(mid + H, mid + H, masked);
    top = addc(top, 0);
#pragma unroll
    for (int i = 0; i < H; i++) masked[i] = da[i] & negative_b;
    add_words<H>(mid + H, mid + H, masked);
    top = addc(top, 0) - (negative_a & negative_b & 1);
    t[H] = add_cc(t[H], mid[0]);
#pragma unroll
    for (int i = 1; i < H; i++) t[H + i] = addc_cc(t[H + i], mid[i]);
#pragma unroll
    for (int i = 0; i < H; i++) t[N + i] = addc_cc(z2[i], mid[H + i]);
    t[N + H] = addc_cc(z2[H], top);
#pragma unroll
    for (int i = H + 1; i < N; i++) t[N + i] = addc_cc(z2[i], 0);
    return wide;
}
// a b, as mul.
FN Fp mul_karatsuba(const Fp& a, const Fp& b) {
    ASSERT_RANGE(ratio(a) * ratio(b) < 9.8);
    return reduce(product_karatsuba(a, b));
}
