// Signed-digit recoding of scalars, as src/gpu/msm/windows defines it.
//
// Fixed windows: let h be the sum of half of every window's range, 2^(offset + width - 1). The
// digits of k are those of k + h in plain binary minus half each, so no carry goes from window to
// window. The windows are known only at run time, so a block has them in a table in shared memory.
//
// Sliding windows (wNAF): each lane shifts out the part of its scalar that is done. A carry is not
// added: if it is 1, ones are skipped instead of zeros.
//
// Windows of a radix: see radix.cuh.
#pragma once
#include "../params/bls12_381.cuh"
#include "../warp.cuh"
#include "radix.cuh"

// A canonical scalar, least significant word first.
struct alignas(16) Scalar {
    uint32_t w[8];
};

constexpr uint32_t NEGATIVE = 0x80000000u;
constexpr uint32_t BUCKET_BITS = 24; // per vector: BUCKETS_MAX in src/gpu/msm/sort/layout.rs
constexpr uint32_t SLIDING_BUCKET_BITS = 23; // table indices then have 8 bits
constexpr uint32_t WINDOWS_MAX = 64;

// `shape` holds bytes: bits, windows, sets, first_set, taken, low_bits, kind, factor, from the
// lowest on. A pass takes the digits of the sets first_set .. first_set + taken of each vector of
// scalars. Window j is `bits` wide, or bits - 1 if bit j of `narrow` is set, and belongs to set j %
// sets and table j / sets. Sliding windows have up to `bits` bits, odd digits and one set; windows
// of the radix factor * 2^bits also have one set. Otherwise `factor` is 1. Buckets of a vector are
// grouped in coarse bins of 2^low_bits consecutive buckets.
constexpr uint32_t SLIDING = 1, RADIX = 2;
struct Recoding {
    uint64_t narrow;
    uint32_t bits, windows, sets, first_set, taken, low_bits, kind, factor;

    static FN Recoding of(uint64_t shape, uint64_t narrow) {
        const auto byte = [=](int i) { return uint32_t(shape >> 8 * i) & 0xff; };
        return {narrow, byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), byte(6),
                byte(7)};
    }
    // Per vector.
    FN uint32_t buckets() const { return taken * factor << (bits - 1 - (kind == SLIDING)); }
    // Bits of Digit::word that hold the bucket.
    FN uint32_t bucket_bits() const { return kind == SLIDING ? SLIDING_BUCKET_BITS : BUCKET_BITS; }
};

// How to extract one digit. Digit::word is `tag` plus the digit's magnitude. All digits of a window
// outside the pass are 0.
struct alignas(16) Window {
    uint32_t offset, mask, half, tag;
};
// A block's table in shared memory; the entry after the last window begins past all scalars.
struct WindowTable {
    Window window[WINDOWS_MAX + 1];
    uint32_t halves[8]; // h
    RadixTable radix;   // used instead for windows of a radix
};

// All threads of the block take part; ends with a barrier.
FN void fill_windows(WindowTable* table, const Recoding& recoding) {
    if (threadIdx.x < 8) table->halves[threadIdx.x] = 0;
    if (recoding.kind == RADIX) fill_radix(&table->radix, recoding.windows);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j <= recoding.windows; j += blockDim.x) {
        Window window = {~0u, 0, 0, 0};
        if (j < recoding.windows) {
            const uint32_t width = recoding.bits - (uint32_t(recoding.narrow >> j) & 1);
            const uint64_t below = recoding.narrow & ((uint64_t(1) << j) - 1);
            const uint32_t narrower = uint32_t(__popc(uint32_t(below)))
                                      + uint32_t(__popc(uint32_t(below >> 32)));
            const uint32_t number = j / recoding.sets;
            const uint32_t set = j - number * recoding.sets - recoding.first_set;
            window.offset = j * recoding.bits - narrower;
            if (set < recoding.taken) {
                // The top window also holds the carry from below.
                window.mask = (j == recoding.windows - 1 ? 4u << (width - 1) : 1u << width) - 1;
                window.half = 1u << (width - 1);
                window.tag = (number << BUCKET_BITS) + (set << (recoding.bits - 1)) - 1;
            }
            const uint32_t top = window.offset + width - 1;
            atomicOr(table->halves + top / 32, 1u << top % 32);
        }
        table->window[j] = window;
    }
    __syncthreads();
}

// A nonzero digit: its bucket within the vector, its table, and whether the point is subtracted.
// `bits` are Recoding::bucket_bits().
struct Digit {
    uint32_t word, sign; // bucket + (table << bits); NEGATIVE or 0

    FN uint32_t bucket(uint32_t bits) const { return word & ((1u << bits) - 1); }
    FN uint32_t table(uint32_t bits) const { return (word & ~NEGATIVE) >> bits; }
};
// The reference for a digit of scalar i. The lower half of `bases` is the index of the first
// table's first point, the upper half the distance between tables in points.
FN uint32_t reference(const Digit& digit, uint32_t bits, uint32_t i, uint64_t bases) {
    return digit.sign | (uint32_t(bases) + digit.table(bits) * uint32_t(bases >> 32) + i);
}

// k = min(k, r - k); returns NEGATIVE if that is r - k. 0 remains 0, since r - 0 = r.
FN uint32_t fold_sign(uint32_t (&k)[9]) {
    uint32_t other[8];
    other[0] = sub_cc(FR_MULTIPLES[0][0], k[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) other[i] = subc_cc(FR_MULTIPLES[0][i], k[i]);
    sub_cc(other[0], k[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) subc_cc(other[i], k[i]);
    const uint32_t less = subc(0, 0); // all ones if r - k < k
#pragma unroll
    for (int i = 0; i < 8; i++) k[i] = (other[i] & less) | (k[i] & ~less);
    return less & NEGATIVE;
}

// Calls each(digit, live) for all windows up to the word in which the last digit of the warp's
// scalars begins, so that short scalars cost less.
template <class Visit>
FN void for_each_fixed_digit(uint32_t (&k)[9], uint32_t flip, const WindowTable* table,
                             Visit each) {
    k[0] = add_cc(k[0], table->halves[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) k[i] = addc_cc(k[i], table->halves[i]);
    int length = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (__any_sync(ALL_LANES, k[i] != table->halves[i])) length = i + 1;
    }
    const Window* at = table->window;
    Window window = *at;
    // Unrolled over the word in which windows begin: registers have no addresses.
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i >= length) break;
#pragma unroll 1
        while (window.offset < 32 * (uint32_t(i) + 1)) {
            const uint32_t value = funnel_right(k[i], k[i + 1], window.offset) & window.mask;
            const uint32_t digit = value - window.half;
            const uint32_t size = int32_t(digit) < 0 ? 0 - digit : digit;
            each(Digit{window.tag + size, (digit & NEGATIVE) ^ flip}, digit != 0);
            window = *++at;
        }
    }
}

// Calls each(digit, live) for the odd digits of up to `bits` bits. k holds the rest of the scalar
// from bit `at` on; the scalar has `length` bits.
template <class Visit>
FN void for_each_sliding_digit(uint32_t (&k)[9], uint32_t flip, uint32_t bits, Visit each) {
    uint32_t length = 0, at = 0, carry = 0; // carry: all ones if 1 is carried
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        if (k[i]) length = 32 * (i + 1) - leading_zeros(k[i]);
    }
#pragma unroll 1
    while (__any_sync(ALL_LANES, at < length || carry)) {
        const uint32_t zeros = uint32_t(__ffs(int(k[0] ^ carry))) - 1; // ones, if 1 is carried
        // One shift covers zeros and a window; longer ones take two iterations.
        const bool live = zeros < 32 - bits;
        uint32_t shift = zeros < 31 ? zeros : 31;
        at += shift;
        const uint32_t left = length - at, even = left / 2 + 1;
        const uint32_t width = even < bits && int32_t(left) >= int32_t(bits) ? even : bits;
        // The window in the upper bits of a word: negative if it carries 1. The digit's magnitude
        // is 2 bucket + 1, since its lowest bit is always 1.
        const uint32_t window = funnel_right(k[0], k[1], shift) << (32 - width);
        const uint32_t down = uint32_t(int32_t(window) >> 31);
        const uint32_t bucket = (window ^ down) >> (33 - width);
        each(Digit{bucket + (at << SLIDING_BUCKET_BITS), (down & NEGATIVE) ^ flip}, live);
        if (live) {
            carry = down;
            at += width;
            shift += width;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) k[i] = funnel_right(k[i], k[i + 1], shift);
    }
}

// Calls each(digit, live) for the windows of *scalar, or of 0 if `exists` is false; `live` means
// that there is a digit and it is not 0. All lanes of a warp must call this together, and all call
// `each` equally often.
template <class Visit>
FN void for_each_digit(const Scalar* scalar, bool exists, const Recoding& recoding,
                       const WindowTable* table, Visit each) {
    uint32_t k[9];
#pragma unroll
    for (int i = 0; i < 9; i++) k[i] = 0;
    if (exists) {
        const Scalar given = *scalar;
#pragma unroll
        for (int i = 0; i < 8; i++) k[i] = given.w[i];
    }
    const uint32_t flip = fold_sign(k);
    if (recoding.kind == SLIDING) {
        for_each_sliding_digit(k, flip, recoding.bits, each);
    } else if (recoding.kind == RADIX) {
        const uint32_t radix = recoding.factor << recoding.bits;
        const auto each_window = [&](uint32_t j, int32_t digit) {
            const uint32_t size = uint32_t(digit < 0 ? -digit : digit);
            const uint32_t word = (j << BUCKET_BITS) + size - 1;
            each(Digit{word, (uint32_t(digit) & NEGATIVE) ^ flip}, digit != 0);
        };
        for_each_radix_digit(k, radix, recoding.windows, &table->radix, each_window);
    } else {
        for_each_fixed_digit(k, flip, table, each);
    }
}
