// Candidates for Fp's product, to be measured: the losers go.
#pragma once
#include "../field.cuh"

// One level of Karatsuba: 3 (N/2)^2 products.
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
// Montgomery's steps only.
FN Fp mul_plain(const Fp& a, const Fp& b) {
    uint32_t e[24], o[24];
    first_row<12>(e, o, LimbsOf{a.w}, b.w[0]);
    add_row<12, false, false>(e, o, Modulus{}, e[0] * FP_INVERSE_NEG);
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        join_limb(e, o, i);
        add_row<12, true, true>(full, open, LimbsOf{a.w}, b.w[i]);
        add_row<12, false, false>(full, open, Modulus{}, full[0] * FP_INVERSE_NEG);
    }
    return upper_half(e, o);
}
// The full chain's carry goes into a limb of its own, where the next row's open chain ends.
template <bool CARRIED, bool FRESH, class A>
FN void add_row_limb(uint32_t* full, uint32_t* open, const A& a, uint32_t x) {
#pragma unroll
    for (int j = 1; j < 12; j += 2) {
        if (j == 1 && !CARRIED)
            mad_first(open[j - 1], open[j], a(j), x);
        else if (j < 11)
            mad_next(open[j - 1], open[j], a(j), x);
        else
            mad_last(open[j - 1], open[j], a(j), x);
    }
    mad_first(full[0], full[1], a(0), x);
#pragma unroll
    for (int j = 2; j < 12; j += 2) mad_next(full[j], full[j + 1], a(j), x);
    if (FRESH) full[12] = full[13] = 0;
    full[12] = add_carry(full[12]);
}
FN Fp mul_limb(const Fp& a, const Fp& b) {
    uint32_t e[28], o[28];
    first_row<12>(e, o, LimbsOf{a.w}, b.w[0]);
    uint32_t x = e[0];
    e[12] = e[13] = 0;
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        join_limb(e, o, i);
        add_row_limb<true, true>(full, open, LimbsOf{a.w}, b.w[i]);
        if (i <= FP_WORD_STEPS) add_row_limb<false, false>(full, open, WordInverse{}, x);
        if (i >= FP_WORD_STEPS)
            add_row_limb<false, false>(full, open, Modulus{}, full[0] * FP_INVERSE_NEG);
        x = full[0];
    }
    Fp r;
    r.w[0] = add_cc(e[12], o[11]);
#pragma unroll
    for (int k = 1; k < 12; k++) r.w[k] = addc_cc(e[12 + k], o[11 + k]);
    return r;
}
