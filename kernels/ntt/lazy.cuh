// Sums of elements of Fr inside a transform, reduced as little as possible.
//
// "Any" is any 256-bit number, below 2.2087 r. Products by constants accept any and are below 2 r,
// or below 1.001 r with more than one precomputed multiple (../field/fr.cuh). Sums and differences
// accept any u and v below 2 r:
//   u + v < 2^256 + 2 r: if it carries, subtracting 2 r brings it below 2^256; else it is any;
//   u - v > -2 r: if it borrows, adding 2 r brings it below 2 r; else it is at most u.
// So v needs a reduction only if it is itself such a sum: `trim`, which tests the top limb. Only
// the last pass makes its results canonical.
#pragma once
#include "../field.cuh"

// Upper bounds in thousandths of r, known at compile time.
constexpr int ANY = 2209, BELOW_2R = 2000, PRODUCT = 1001, TRIMMED = 1209, RADIX = 2208;
constexpr int ABOUT_R = 1100; // fused.cuh

// any -> below 1.209 r: if the top limb exceeds r's then x > r; otherwise x < r (1 + 2^-30).
FN void trim(Fr& x) {
    sub_words_if(x.w, multiple<1, Fr>().w, x.w[7] > Fr::modulus(7));
    ASSERT_RANGE(ratio(x) < TRIMMED * 1e-3);
}
// any -> canonical, with fewer operations than canonical() of field.cuh.
FN void finish(Fr& x) {
    trim(x);
    const Fr r = multiple<1, Fr>();
    sub_words<8>(x.w, x.w, r.w);
    add_words_if(x.w, r.w, borrow_mask());
    ASSERT_RANGE(is_canonical(x));
}
// u, v = u + v, u - v, and updates their bounds; v is below 2 r.
FN void butterfly(Fr& u, Fr& v, int& u_bound, int& v_bound) {
    ASSERT_RANGE(is_below<2>(v));
    const Fr twice = multiple<2, Fr>();
    Fr sum, difference;
    add_words<8>(sum.w, u.w, v.w);
    const bool fits = u_bound + v_bound <= RADIX;
    ASSERT_RANGE(!fits || ratio(u) + ratio(v) < RADIX * 1e-3);
    if (!fits) sub_words_if(sum.w, twice.w, addc(0, 0));
    sub_words<8>(difference.w, u.w, v.w);
    add_words_if(difference.w, twice.w, borrow_mask());
    u = sum, v = difference;
    const int sum_bound = fits ? u_bound + v_bound : ANY;
    v_bound = u_bound > BELOW_2R ? u_bound : BELOW_2R;
    u_bound = sum_bound;
}
