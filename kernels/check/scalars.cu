// Elements of Fr and integers: from their wire encodings to the form that kernels use, and back.
//
// scalars_decode: a thread decodes one at a time (grid-stride). `form` is the encoding:
//   0  Fr, an integer        1  Fr, Montgomery limbs     32 bytes each, little-endian
//   2  unsigned integers     3  two's complement         `width` bytes each: 1, 2, 4, 8 or 16
// `flags`: REDUCE reduces 32-byte integers modulo r; otherwise r and above are rejected.
// INTO_MONTGOMERY selects the output form (forms 2 and 3 always become integers). A rejected value
// becomes 0. *first_bad, initially 0, becomes the greatest ~index of all rejected, index =
// first_index + position; its complement is the first. 32-byte values may be decoded in place.
// scalars_encode: Montgomery limbs below 2^256 to canonical integers, in place. Shared memory and
// barriers: none. Blocks of 128, any grid. Reads and writes 64 bytes each.
#include "../memory.cuh"

constexpr uint32_t THREADS = 128;
enum ScalarForm : uint32_t { INTEGER, MONTGOMERY, UNSIGNED, SIGNED };
enum ScalarFlags : uint32_t { REDUCE = 1, INTO_MONTGOMERY = 2 };

template <> struct ElementWidth<Fr> {
    static constexpr int LIMBS = 8;
};
FN uint32_t& limb(Fr& a, int i) { return a.w[i]; }
FN uint32_t limb(const Fr& a, int i) { return a.w[i]; }

// The integer at `from`, sign-extended to 128 bits.
FN Fr load_narrow(const uint8_t* from, uint32_t width, bool negative) {
    Fr a = Fr::zero();
    const uint32_t fill = negative ? ~0u : 0;
    if (width == 16) {
        const Quad quad = *reinterpret_cast<const Quad*>(from);
#pragma unroll
        for (int i = 0; i < 4; i++) a.w[i] = quad.w[i];
        return a;
    }
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(from);
    a.w[0] = width == 1   ? from[0] | fill << 8
             : width == 2 ? *reinterpret_cast<const uint16_t*>(from) | fill << 16
                          : words[0];
    a.w[1] = width == 8 ? words[1] : fill;
    a.w[2] = a.w[3] = fill;
    return a;
}
// The integer at `from` modulo r, as an integer.
FN Fr decode_narrow(const uint8_t* from, uint32_t width, bool is_signed) {
    const bool negative = is_signed && from[width - 1] >> 7;
    Fr a = load_narrow(from, width, negative);
    if (!negative) return a;
    uint32_t zeros[4] = {};
    sub_words<4>(a.w, zeros, a.w);
    return neg(a);
}
// Returns false if the value is rejected.
FN bool decode_element(Fr& a, const uint8_t* from, uint32_t form, uint32_t flags) {
    a = load<Fr>(from);
    if (!is_canonical(a)) {
        if (!(flags & REDUCE)) return false;
        a = canonical(a);
    }
    const bool into_montgomery = flags & INTO_MONTGOMERY;
    if (form == INTEGER && into_montgomery) a = to_montgomery(a);
    if (form == MONTGOMERY && !into_montgomery) a = from_montgomery(a);
    return true;
}

KERNEL(128)
scalars_decode(const uint8_t* from, Fr* to, unsigned long long* first_bad, uint64_t first_index,
               uint32_t n, uint32_t form, uint32_t width, uint32_t flags) {
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        const uint8_t* const own = from + i * width;
        Fr a;
        if (form >= UNSIGNED) {
            a = decode_narrow(own, width, form == SIGNED);
        } else if (!decode_element(a, own, form, flags)) {
            atomicMax(first_bad, ~static_cast<unsigned long long>(first_index + i));
            a = Fr::zero();
        }
        store(to + i, a);
    }
}
EXPORT_KERNEL(scalars_decode);

KERNEL(128)
scalars_encode(Fr* elements, uint32_t n) {
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        store(elements + i, from_montgomery(load<Fr>(elements + i)));
    }
}
EXPORT_KERNEL(scalars_encode);
