// Karatsuba's product in Fp: 108 limb products instead of 144 before the reduction, for about a
// hundred more additions and 28 more registers. It is 8 % faster than mul alone and 1 % inside G1
// additions, but slower inside Fp2's product (benches/experiments/gpu-arithmetic.md).
#pragma once
#include "fp.cuh"

// For a = a0 + a1 B and b = b0 + b1 B, the middle term is a0 b0 + a1 b1 - (a0 - a1)(b0 - b1). A
// negative difference is stored mod B, with a mask for its sign.
FN WideProduct product_karatsuba(const Fp& fa, const Fp& fb) {
    constexpr int N = 12, H = 6;
    const uint32_t *a = fa.w, *b = fb.w;
    WideProduct wide;
    uint32_t *t = wide.w, z2[N], zm[N], da[H], db[H], mid[N];
    product_words<H>(t, a, b);
    product_words<H>(z2, a + H, b + H);
    sub_words<H>(da, a, a + H);
    const uint32_t negative_a = borrow_mask();
    sub_words<H>(db, b, b + H);
    const uint32_t negative_b = borrow_mask();
    product_words<H>(zm, da, db);
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
// a b, with the ranges of mul.
FN Fp mul_karatsuba(const Fp& a, const Fp& b) {
    ASSERT_RANGE(ratio(a) * ratio(b) < 9.8);
    return reduce(product_karatsuba(a, b));
}
