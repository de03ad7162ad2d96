// Candidates for Fp's product, to be measured: the losers go.
#pragma once
#include "../field.cuh"
#include "../field/karatsuba.cuh"

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
