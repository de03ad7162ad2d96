// Single operations of the arithmetic, elementwise on arrays. The daemon runs them at every start
// against known answers, and tests/kernels compares them with arkworks.
//
// Launch: one-dimensional grid and block, blocks of at most 128 threads. Elements are in Montgomery
// form, inputs in the range that field.cuh states for the operation, outputs canonical. Arrays have
// n elements; every operation reads all inputs.
#include "field/karatsuba.cuh"
#include "field2.cuh"

// Operation codes of selftest_fp, _fr and _fp2. a, b, c, d are the inputs in order.
enum FieldOperation : uint32_t {
    ADD,             //  0  a + b
    SUB,             //  1  a - b
    NEG,             //  2  -a
    DBL,             //  3  2 a
    MUL,             //  4  a b
    SQR,             //  5  a^2
    INVERSE,         //  6  1 / a, 0 for 0
    MUL_ADD_MUL,     //  7  a b + c d; not Fr
    MUL_SUB_MUL,     //  8  a b - c d; not Fr
    TO_MONTGOMERY,   //  9  a R
    FROM_MONTGOMERY, // 10  a / R
    CANONICAL,       // 11  a
    IS_CANONICAL,    // 12  word 0 is 1 if a is canonical (both coordinates), else 0; the rest 0
    SUB_LAZY,        // 13  a - b, by sub_lazy<1>
    NEG_LAZY,        // 14  -a, by neg_lazy<1>
    ADD_LAZY,        // 15  a + b, by add_lazy
    MUL_KARATSUBA,   // 16  a b, by mul_karatsuba; Fp only
};

template <class F> FN F from_flag(bool flag) {
    F r = zero<F>();
    reinterpret_cast<uint32_t&>(r) = flag;
    return r;
}
// For operations that not every field has.
template <class F> constexpr bool IS_FP = false;
template <> constexpr bool IS_FP<Fp> = true;
template <class F> constexpr bool IS_FR = false;
template <> constexpr bool IS_FR<Fr> = true;

template <class F> FN F apply(uint32_t operation, const F& a, const F& b, const F& c, const F& d) {
    switch (operation) {
    case ADD: return add(a, b);
    case SUB: return sub(a, b);
    case NEG: return neg(a);
    case DBL: return dbl(a);
    case MUL: return canonical(mul(a, b));
    case SQR: return canonical(sqr(a));
    case INVERSE: return inverse(a);
    case MUL_ADD_MUL:
        if constexpr (IS_FP<F>) return canonical(mul_add_mul(a, b, c, d));
        break;
    case MUL_SUB_MUL:
        if constexpr (!IS_FR<F>) return canonical(mul_sub_mul(a, b, c, d));
        break;
    case TO_MONTGOMERY: return to_montgomery(a);
    case FROM_MONTGOMERY: return from_montgomery(a);
    case CANONICAL: return canonical(a);
    case IS_CANONICAL: return from_flag<F>(is_canonical(a));
    case SUB_LAZY: return canonical(sub_lazy<1>(a, b));
    case NEG_LAZY: return canonical(neg_lazy<1>(a));
    case ADD_LAZY: return canonical(add_lazy(a, b));
    case MUL_KARATSUBA:
        if constexpr (IS_FP<F>) return canonical(mul_karatsuba(a, b));
        break;
    }
    return zero<F>();
}
template <class F>
FN void apply_to_all(uint32_t operation, uint32_t n, const F* a, const F* b, const F* c,
                     const F* d, F* out) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        out[i] = apply(operation, a[i], b[i], c[i], d[i]);
}

KERNEL(128)
selftest_fp(uint32_t operation, uint32_t n, const Fp* a, const Fp* b, const Fp* c, const Fp* d,
            Fp* out) {
    apply_to_all(operation, n, a, b, c, d, out);
}
EXPORT_KERNEL(selftest_fp);

KERNEL(128)
selftest_fr(uint32_t operation, uint32_t n, const Fr* a, const Fr* b, const Fr* c, const Fr* d,
            Fr* out) {
    apply_to_all(operation, n, a, b, c, d, out);
}
EXPORT_KERNEL(selftest_fr);

KERNEL(128)
selftest_fp2(uint32_t operation, uint32_t n, const Fp2* a, const Fp2* b, const Fp2* c,
             const Fp2* d, Fp2* out) {
    apply_to_all(operation, n, a, b, c, d, out);
}
EXPORT_KERNEL(selftest_fp2);

// The primitives of carry.cuh on words a, b, c, s of element i; stores 24 words to out[24 i].
KERNEL(128)
selftest_words(uint32_t n, const uint32_t* as, const uint32_t* bs, const uint32_t* cs,
               const uint32_t* shifts, uint32_t* out) {
    const uint32_t threads = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        const uint32_t a = as[i], b = bs[i], c = cs[i], s = shifts[i];
        uint32_t* r = out + size_t(24) * i;
        r[0] = add_cc(a, b); // a + b, then b + c + carry, then c + a + carry
        r[1] = addc_cc(b, c);
        r[2] = addc(c, a);
        r[3] = sub_cc(a, b); // a - b, then b - c - borrow, then c - a - borrow
        r[4] = subc_cc(b, c);
        r[5] = subc(c, a);
        r[6] = mad_lo_cc(a, b, c); // 96 bits: (a b + c) + 2^32 (a c + b) + 2^64 (high half of b c)
        r[7] = madc_hi_cc(a, b, 0);
        r[8] = madc_hi(b, c, 0);
        r[9] = add_cc(a, c); // a + c, then b c + a + carry in two words
        r[10] = madc_lo_cc(b, c, a);
        r[11] = madc_hi(b, c, 0);
        r[12] = mad_lo_cc(a, a, b); // a a + (c : b) in two words, then its carry
        r[13] = madc_hi_cc(a, a, c);
        r[14] = addc(0, 0);
        mul_wide(r[15], r[16], b, c);
        add_cc(a, b); // c + carry of a + b
        r[17] = add_carry(c);
        r[18] = opaque_zero();
        r[19] = leading_zeros(a);
        r[20] = funnel_left(a, b, s & 31);
        r[21] = funnel_right(a, b, s & 31);
        sub_cc(a, b); // all ones if a < b
        r[22] = subc(0, 0);
        r[23] = mad_lo_cc(b, c, a);
    }
}
EXPORT_KERNEL(selftest_words);
