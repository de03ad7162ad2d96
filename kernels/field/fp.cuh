// Montgomery products in Fp. Ranges: see ../field.cuh.
//
// Dropping a limb. Montgomery's step adds m p with m = -x / p mod 2^32 to make the lowest limb x
// zero. What the step does to the residue is known without m: x is worth x 2^-32 one limb up, and
// V = (2^-32 mod p) has twelve limbs. So V -> (V - x) / 2^32 + x (2^-32 mod p): as many products,
// but no m, on which everything after waits, and no carry out of the dropped limb. Such a step may
// add almost 2^32 p, though; at step i of 12 that is 2^-32(11 - i) of it in the result. The first
// ten steps are of this kind, the last two are Montgomery's, and the result is below
// a b / R + p (1 + 2^-31).
//
// Accumulators never pass their 13 limbs: before a limb is dropped they hold less than
// 2^32 (a + 2 p) (1 + 2^-31), which is below 2^416 for a < 7.8 p.
#pragma once
#include "product.cuh"

constexpr int FP_WORD_STEPS = 10; // then 2 steps of Montgomery's

// What is left of the accumulators from limb 12 up.
FN Fp fp_result(const uint32_t* e, const uint32_t* o) {
    Fp r;
    r.w[0] = add_cc(e[12], o[11]);
#pragma unroll
    for (int k = 1; k < 11; k++) r.w[k] = addc_cc(e[12 + k], o[11 + k]);
    r.w[11] = addc(e[23], 0);
    return r;
}
// t / 2^384, below t / 2^384 + p (1 + 2^-31): t < p R gives < 2 p. The upper half of t joins at the
// end, so that no carry ripples through it.
FN Fp reduce(const Wide<FpParams>& t) {
    uint32_t e[24], o[24], x = t.w[0];
#pragma unroll
    for (int k = 0; k < 12; k++) e[k] = t.w[k];
#pragma unroll
    for (int j = 0; j < 12; j++) o[j] = 0;
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        const uint32_t below = i % 2 ? e[i] : o[i - 1]; // the other half of limb i
        if (i <= FP_WORD_STEPS) {
            if (i == 1) {
#pragma unroll
                for (int j = 0; j < 12; j += 2) mul_wide(o[j], o[j + 1], FP_WORD_INVERSE[j], x);
            }
            full[0] = add_cc(full[0], below);
            if (i == 1) {
#pragma unroll
                for (int j = 0; j < 12; j += 2) {
                    if (j == 10) open[j] = open[j + 1] = 0;
                    mad_next(open[j], open[j + 1], FP_WORD_INVERSE[j + 1], x);
                }
            } else {
                add_row<12, true, true>(full, open, WordInverseOfFp{}, x);
            }
            x = full[0];
            if (i == FP_WORD_STEPS)
                add_row<12, false, false>(full, open, ModulusOfFp{}, x * FP_INVERSE_NEG);
        } else {
            full[0] = add_cc(full[0], below);
            add_row<12, true, true>(full, open, ModulusOfFp{}, full[0] * FP_INVERSE_NEG);
        }
    }
    Fp r = fp_result(e, o);
    add_words<12>(r.w, r.w, t.w + 12);
    return r;
}
// Product and reduction row by row in one pair of accumulators: the fewest live registers.
FN Fp mul(const Fp& a, const Fp& b) {
    ASSERT_RANGE(ratio(a) < 7.8 && ratio(b) < 7.8 && ratio(a) * ratio(b) < slack<Fp>());
    uint32_t e[24], o[24];
    first_row<12>(e, o, LimbsOf{a.w}, b.w[0]);
    uint32_t x = e[0];
#pragma unroll
    for (int i = 1; i < 12; i++) {
        uint32_t *full = full_chain(e, o, i), *open = open_chain(e, o, i);
        full[0] = add_cc(full[0], i % 2 ? e[i] : o[i - 1]); // limb i is whole
        add_row<12, true, true>(full, open, LimbsOf{a.w}, b.w[i]);
        if (i <= FP_WORD_STEPS) add_row<12, false, false>(full, open, WordInverseOfFp{}, x);
        x = full[0];
        if (i >= FP_WORD_STEPS)
            add_row<12, false, false>(full, open, ModulusOfFp{}, x * FP_INVERSE_NEG);
    }
    return fp_result(e, o);
}
FN Fp sqr(const Fp& a) {
    ASSERT_RANGE(ratio(a) * ratio(a) < slack<Fp>());
    return reduce(square(a));
}
