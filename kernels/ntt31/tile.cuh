// Transforms inside a tile of 2^T words, which a block holds: S stages at bits C to C + S - 1 of a
// word's number in the tile. The bits below are lanes; those above number independent rows.
//
// The stages are digits of at most E bits. A thread holds 2^E words, does a digit in registers, and
// exchanges words with other threads through shared memory between digits.
#pragma once
#include "field.cuh"
#include "quad.cuh"

FN void load_quad(uint32_t* x, const uint32_t* from) {
    const Quad quad = *reinterpret_cast<const Quad*>(from);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) x[i] = quad.w[i];
}
FN void store_quad(uint32_t* to, const uint32_t* x) {
    *reinterpret_cast<Quad*>(to) = Quad{{x[0], x[1], x[2], x[3]}};
}

// The first or the last S mod COUNT digits have a bit more than the others.
template <uint32_t S, uint32_t E, bool IS_LARGEST_LAST> struct Digits31 {
    static constexpr uint32_t COUNT = (S + E - 1) / E;
    static constexpr uint32_t LAST = IS_LARGEST_LAST ? (S + COUNT - 1) / COUNT : S / COUNT;

    static FN constexpr uint32_t bits(uint32_t i) {
        return (S + (IS_LARGEST_LAST ? i : COUNT - 1 - i)) / COUNT;
    }
    // Stages after digit i.
    static FN constexpr uint32_t below(uint32_t i) {
        uint32_t sum = 0;
        for (uint32_t j = i + 1; j < COUNT; j++) sum += bits(j);
        return sum;
    }
    // Where the twiddles between digits i and i + 1 are in the pass's table.
    static FN constexpr uint32_t table(uint32_t i) {
        uint32_t sum = 0;
        for (uint32_t j = 0; j < i; j++) sum += 1u << (below(j) + bits(j));
        return sum;
    }
};

// The words of a thread.
template <uint32_t E> using Words31 = uint32_t[1 << E];

template <uint32_t S, uint32_t C, uint32_t T, uint32_t E> struct Tile31 {
    using D = Digits31<S, E, (C > 0)>;
    static constexpr uint32_t THREADS = 1 << (T - E), WORDS = 1 << E, LANES = 1 << C;
    static constexpr uint32_t LAST_DIGIT = D::COUNT - 1;

    // Bit of the tile at which digit I begins.
    template <uint32_t I> static FN constexpr uint32_t begin() { return D::below(I) + C; }
    // The number in the tile of point j of butterfly n of digit I.
    template <uint32_t I> static FN constexpr uint32_t number(uint32_t n, uint32_t j) {
        constexpr uint32_t L = begin<I>(), K = D::bits(I);
        return n >> L << (L + K) | j << L | (n & ((1u << L) - 1));
    }
    // Where a word is in shared memory. Exclusive-ors change its low 5 bits so that no digit's
    // accesses conflict: of words for lanes (C > 0), of words or 16 bytes for rows.
    static FN constexpr uint32_t place(uint32_t a) {
        if constexpr (C >= 5) return a;
        else if constexpr (C > 0)
            return a ^ ((a >> (D::LAST + C)) & ((1u << (5 - C)) - 1)) << C;
        else {
            constexpr uint32_t MASK = D::LAST < 5 ? (1u << (5 - D::LAST)) - 1 : 0;
            constexpr uint32_t ABOVE = D::COUNT > 2 ? D::below(0) : S;
            return a ^ (a >> 5 & 7) << 2 ^ (a >> ABOVE & MASK) << D::LAST;
        }
    }
    // The place of the word at `own | offset`, two numbers without a common bit, from `own`'s place.
    static FN uint32_t cell(uint32_t own_place, uint32_t offset) {
        return (own_place ^ (place(offset) & 31)) + (offset & ~31u);
    }

    template <uint32_t I> static FN void load(Words31<E>& x, const uint32_t* tile) {
        constexpr uint32_t K = D::bits(I);
        const uint32_t own = place(number<I>(threadIdx.x, 0));
#pragma unroll
        for (uint32_t g = 0; g < WORDS >> K; g++) {
            if constexpr (C == 0 && I == LAST_DIGIT) {
#pragma unroll
                for (uint32_t j = 0; j < 1 << K; j += 4)
                    load_quad(&x[g << K | j], tile + cell(own, number<I>(g * THREADS, j)));
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 1 << K; j++)
                    x[g << K | j] = tile[cell(own, number<I>(g * THREADS, j))];
            }
        }
    }
    template <uint32_t I> static FN void store(const Words31<E>& x, uint32_t* tile) {
        constexpr uint32_t K = D::bits(I);
        const uint32_t own = place(number<I>(threadIdx.x, 0));
#pragma unroll
        for (uint32_t g = 0; g < WORDS >> K; g++) {
            if constexpr (C == 0 && I == LAST_DIGIT) {
#pragma unroll
                for (uint32_t j = 0; j < 1 << K; j += 4)
                    store_quad(tile + cell(own, number<I>(g * THREADS, j)), &x[g << K | j]);
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 1 << K; j++)
                    tile[cell(own, number<I>(g * THREADS, j))] = x[g << K | j];
            }
        }
    }
    // Multiplies by the twiddles between digits I and I + 1.
    template <uint32_t I, class Prime>
    static FN void twist(Words31<E>& x, const FactorOf31<Prime>* twiddles, const Prime& f) {
        constexpr uint32_t K = D::bits(I), L = begin<I>();
#pragma unroll
        for (uint32_t g = 0; g < WORDS >> K; g++) {
            const uint32_t n = threadIdx.x + g * THREADS;
            const auto* const own = twiddles + D::table(I) + ((n & ((1u << L) - 1)) >> C);
#pragma unroll
            for (uint32_t l = 1; l < 1 << K; l++)
                x[g << K | l] = multiply(x[g << K | l], entry(own + (l << (L - C))), f);
        }
    }

    // From the points of the first digit to frequencies, which the last digit leaves in `x`.
    template <uint32_t I = 0, class Prime>
    static FN void frequencies(Words31<E>& x, uint32_t* tile,
                               const FactorOf31<Prime>* twiddles, const Prime& f) {
        constexpr uint32_t K = D::bits(I);
        constexpr bool IS_LAST = I == LAST_DIGIT;
        if constexpr (I > 0) load<I>(x, tile);
#pragma unroll
        for (uint32_t g = 0; g < WORDS >> K; g++)
            dif<K, (!IS_LAST || C > 0)>(*reinterpret_cast<Words31<K>*>(&x[g << K]), f);
        if constexpr (!IS_LAST) {
            twist<I>(x, twiddles, f);
            store<I>(x, tile);
            __syncthreads();
            frequencies<I + 1>(x, tile, twiddles, f);
        }
    }
    // The transpose: from frequencies in `x` to the points of the first digit.
    template <uint32_t I = LAST_DIGIT, class Prime>
    static FN void points(Words31<E>& x, uint32_t* tile, const FactorOf31<Prime>* twiddles,
                          const Prime& f) {
        constexpr uint32_t K = D::bits(I);
        if constexpr (I < LAST_DIGIT) {
            __syncthreads();
            load<I>(x, tile);
            twist<I>(x, twiddles, f);
        }
#pragma unroll
        for (uint32_t g = 0; g < WORDS >> K; g++)
            dit<K>(*reinterpret_cast<Words31<K>*>(&x[g << K]), f);
        if constexpr (I > 0) {
            store<I>(x, tile);
            points<I - 1>(x, tile, twiddles, f);
        }
    }
};
