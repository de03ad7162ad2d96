// Scalars to signed digits, as src/msm/windows says.
//
// Fixed windows: with h the sum of half of every window's range, 2^(offset + width - 1), the digits
// of k are those of k + h in plain binary less half each: no carry goes from window to window. The
// windows are known at run time only, so a block keeps them as a table in shared memory.
//
// Sliding windows: each lane shifts its own scalar by what it is done with. What is carried is not
// added: where it is 1, ones are skipped instead of zeros.
//
// Windows of a radix: see radix.cuh.
#pragma once
#include "../params/bls12_381.cuh"
#include "../warp.cuh"
#include "radix.cuh"

// Canonical, least significant word first.
struct alignas(16) Scalar {
    uint32_t w[8];
};

constexpr uint32_t NEGATIVE = 0x80000000u;
constexpr uint32_t BUCKET_BITS = 24; // of one vector: BUCKETS_MAX in src/msm/sort/layout.rs
constexpr uint32_t SLIDING_BUCKET_BITS = 23; // tables are 8 bits then
constexpr uint32_t WINDOWS_MAX = 64;

// `shape` holds bytes: bits, windows, sets, first_set, taken, low_bits, kind, factor, from the
// lowest on. A pass takes the digits of the sets first_set .. first_set + taken of each vector of
// scalars. Window j is `bits` wide, less 1 where bit j of `narrow` is set, and belongs to set
// j % sets and table j / sets. Sliding windows are up to `bits` wide, digits odd, and there is one
// set; windows of the radix factor * 2^bits have one set, too. `factor` is 1 otherwise. Buckets of a
// vector go to coarse bins of 2^low_bits neighbours.
constexpr uint32_t SLIDING = 1, RADIX = 2;
struct Recoding {
    uint64_t narrow;
    uint32_t bits, windows, sets, first_set, taken, low_bits, kind, factor;

    static FN Recoding of(uint64_t shape, uint64_t narrow) {
        const auto byte = [=](int i) { return uint32_t(shape >> 8 * i) & 0xff; };
        return {narrow, byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), byte(6),
                byte(7)};
    }
    // Of one vector.
    FN uint32_t buckets() const { return taken * factor << (bits - 1 - (kind == SLIDING)); }
    // Of Digit::word.
    FN uint32_t bucket_bits() const { return kind == SLIDING ? SLIDING_BUCKET_BITS : BUCKET_BITS; }
};

// How to read one digit. `tag` plus the digit's size is what Digit::word holds; a window that is
// not taken has all digits 0.
struct alignas(16) Window {
    uint32_t offset, mask, half, tag;
};
// One block's, in shared memory; behind the last window is one that begins past all scalars.
struct WindowTable {
    Window window[WINDOWS_MAX + 1];
    uint32_t halves[8]; // h
    RadixTable radix;   // instead, where windows are of one
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
                // The top window keeps what comes from below.
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

// A digit that is not 0: bucket among its vector's, table, and whether the point is subtracted.
// `bits` are Recoding::bucket_bits().
struct Digit {
    uint32_t word, sign; // bucket + (table << bits); NEGATIVE or 0

    FN uint32_t bucket(uint32_t bits) const { return word & ((1u << bits) - 1); }
    FN uint32_t table(uint32_t bits) const { return (word & ~NEGATIVE) >> bits; }
};
// What a digit of scalar i means. `tables` holds the index of the first point of the first table,
// and above it how many points apart tables are.
FN uint32_t reference(const Digit& digit, uint32_t bits, uint32_t i, uint64_t tables) {
    return digit.sign | (uint32_t(tables) + digit.table(bits) * uint32_t(tables >> 32) + i);
}

// k becomes the lesser of k and r - k; NEGATIVE where that is r - k. 0 stays 0, since r - 0 = r.
FN uint32_t fold(uint32_t (&k)[9]) {
    uint32_t other[8];
    other[0] = sub_cc(FR_MULTIPLES[0][0], k[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) other[i] = subc_cc(FR_MULTIPLES[0][i], k[i]);
    sub_cc(other[0], k[0]);
#pragma unroll
    for (int i = 1; i < 8; i++) subc_cc(other[i], k[i]);
    const uint32_t less = subc(0, 0); // all ones where r - k < k
#pragma unroll
    for (int i = 0; i < 8; i++) k[i] = (other[i] & less) | (k[i] & ~less);
    return less & NEGATIVE;
}

// Calls each(digit, live) for all windows, until the word where the last digit of the warp's
// scalars begins, so that short scalars cost less.
template <class Each>
FN void each_fixed(uint32_t (&k)[9], uint32_t flip, const WindowTable* table, Each each) {
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
    // By the word that windows begin in: registers have no addresses.
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

// Calls each(digit, live) for the odd digits of up to `bits` bits. `at` is where the scalar begins
// that k holds the rest of, `length` where all of it ends.
template <class Each>
FN void each_sliding(uint32_t (&k)[9], uint32_t flip, uint32_t bits, Each each) {
    uint32_t length = 0, at = 0, carry = 0; // all ones where 1 is carried
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        if (k[i]) length = 32 * (i + 1) - leading_zeros(k[i]);
    }
#pragma unroll 1
    while (__any_sync(ALL_LANES, at < length || carry)) {
        const uint32_t zeros = uint32_t(__ffs(int(k[0] ^ carry))) - 1; // ones, where 1 is carried
        // One shift takes zeros and a window; where they are longer it takes two turns.
        const bool live = zeros < 32 - bits;
        uint32_t shift = zeros < 31 ? zeros : 31;
        at += shift;
        const uint32_t left = length - at, even = left / 2 + 1;
        const uint32_t width = even < bits && int32_t(left) >= int32_t(bits) ? even : bits;
        // The window, as the upper bits of a word: below 0 if 1 is carried on. What the digit's size
        // is more than twice the bucket is its lowest bit, which is always 1.
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

// Calls each(digit, live) for the windows of *scalar, of 0 where `there` is false; `live` says that
// there is a digit, and that it is not 0. All lanes of a warp come here together, and all call
// `each` equally often.
template <class Each>
FN void each_digit(const Scalar* scalar, bool there, const Recoding& recoding,
                   const WindowTable* table, Each each) {
    uint32_t k[9];
#pragma unroll
    for (int i = 0; i < 9; i++) k[i] = 0;
    if (there) {
        const Scalar given = *scalar;
#pragma unroll
        for (int i = 0; i < 8; i++) k[i] = given.w[i];
    }
    const uint32_t flip = fold(k);
    if (recoding.kind == SLIDING) {
        each_sliding(k, flip, recoding.bits, each);
    } else if (recoding.kind == RADIX) {
        const uint32_t radix = recoding.factor << recoding.bits;
        each_of_radix(k, radix, recoding.windows, &table->radix, [&](uint32_t j, int32_t digit) {
            const uint32_t size = uint32_t(digit < 0 ? -digit : digit);
            const uint32_t word = (j << BUCKET_BITS) + size - 1;
            each(Digit{word, (uint32_t(digit) & NEGATIVE) ^ flip}, digit != 0);
        });
    } else {
        each_fixed(k, flip, table, each);
    }
}
