// Values of polynomials at a point, from their coefficients or from their values at roots of unity.
// A field of 31 bits has few points, so checks use one of its extension of degree 8: polynomials
// modulo X^8 - g. `evaluate_1` takes a point of the field itself.
//
// A block has a chunk of a row, per_thread * THREADS words. The power that belongs to a word, of
// the point or of the root, is a product of four powers from tables: of the thread, of the step,
// and of two digits of the chunk's number. The tables decide the order of the words.
//
// Elements are in Montgomery form; those of the extension are eight words, coefficients of 1, X,
// ..., X^7.
// sums[row], initially zeros, becomes the sum over the row's chunks of words below p, not reduced.
// Launch: 256 threads; rows * chunks blocks.
#include "field.cuh"

constexpr uint32_t THREADS = 256, WARPS = THREADS / 32, FULL_WARP = ~0u;
// Words that share an inversion; per_thread is a multiple.
constexpr uint32_t GROUP = 4;
constexpr uint32_t DEGREE = 8;

template <uint32_t D> struct Extension31 {
    uint32_t word[D];
};
template <uint32_t D> FN Extension31<D> entry(const Extension31<D>* table) {
    Extension31<D> out;
#pragma unroll
    for (uint32_t i = 0; i < D; i++) out.word[i] = entry(table->word + i);
    return out;
}
template <uint32_t D>
FN Extension31<D> product(const Extension31<D>& a, const Extension31<D>& b, uint32_t generator,
                          const Modulus31& f) {
    Extension31<D> out = {};
#pragma unroll
    for (uint32_t j = D; j-- > 0;) {
        // The products with the higher coefficients of b, times X.
        const uint32_t highest = D > 1 ? montgomery(out.word[D - 1], generator, f) : 0;
#pragma unroll
        for (uint32_t i = D; i-- > 1;) out.word[i] = out.word[i - 1];
        out.word[0] = highest;
#pragma unroll
        for (uint32_t i = 0; i < D; i++)
            out.word[i] = add(out.word[i], montgomery(a.word[i], b.word[j], f), f);
    }
    return out;
}
// The same, by the first D lanes of a warp: each has a coefficient of a, and gets one of the
// product.
template <uint32_t D>
FN uint32_t lane_product(uint32_t a, const Extension31<D>* b, uint32_t generator,
                         const Modulus31& f) {
    const uint32_t own = threadIdx.x & (D - 1);
    uint32_t sum = 0, above = 0;
#pragma unroll
    for (uint32_t i = 0; i < D; i++) {
        const uint32_t factor = __shfl_sync(FULL_WARP, a, int(i));
        const uint32_t term = montgomery(factor, entry(b->word + (own + D - i) % D), f);
        if (i <= own) sum = add(sum, term, f);
        else above = add(above, term, f);
    }
    return add(sum, montgomery(above, generator, f), f);
}
// Lane d of the first warp gets the sum of coefficient d over all threads; other warps get nothing.
template <uint32_t D> FN uint32_t block_sum(Extension31<D> own, const Modulus31& f) {
    SHARED(uint32_t, sums, WARPS * D);
#pragma unroll
    for (uint32_t i = 0; i < D; i++) {
#pragma unroll
        for (uint32_t distance = 16; distance > 0; distance /= 2)
            own.word[i] =
                add(own.word[i], __shfl_down_sync(FULL_WARP, own.word[i], distance), f);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32 * D + i] = own.word[i];
    }
    __syncthreads();
    uint32_t sum = 0;
    if (threadIdx.x >= 32) return sum;
    for (uint32_t warp = 0; warp < WARPS; warp++)
        sum = add(sum, sums[warp * D + (threadIdx.x & (D - 1))], f);
    return sum;
}

// A block's part of a row, and its powers.
template <uint32_t D> struct Chunk31 {
    const Extension31<D>*threads, *steps, *low, *high;
    const uint32_t* words; // from the thread's first one on
    uint32_t row;
    uint32_t left; // words of the row from the thread's first one on

    FN Chunk31(const uint32_t* all, const Extension31<D>* powers, uint64_t length, uint32_t chunks,
               uint32_t per_thread, uint32_t lg_low) {
        row = blockIdx.x / chunks;
        const uint32_t chunk = blockIdx.x % chunks;
        const uint64_t first = uint64_t(chunk) * per_thread * THREADS + threadIdx.x;
        words = all + row * length + first;
        left = first < length ? uint32_t(length - first) : 0;
        threads = powers + threadIdx.x;
        steps = powers + THREADS;
        low = steps + per_thread + (chunk & ((1u << lg_low) - 1));
        high = steps + per_thread + (1u << lg_low) + (chunk >> lg_low);
    }
    FN uint32_t word(uint32_t step) const {
        return step * THREADS < left ? words[step * THREADS] : 0;
    }
};

template <uint32_t D>
FN void evaluate(const uint32_t* words, const Extension31<D>* powers, unsigned long long* sums,
                 uint64_t length, uint32_t chunks, uint32_t per_thread, uint32_t lg_low,
                 uint32_t generator, const Modulus31& f) {
    const Chunk31<D> chunk(words, powers, length, chunks, per_thread, lg_low);
    Extension31<D> sum = {};
#pragma unroll 4
    for (uint32_t k = 0; k < per_thread; k++) {
        const uint32_t word = chunk.word(k);
        const Extension31<D> power = entry(chunk.steps + k);
#pragma unroll
        for (uint32_t i = 0; i < D; i++)
            sum.word[i] = add(sum.word[i], montgomery(word, power.word[i], f), f);
    }
    uint32_t whole = block_sum(product(sum, entry(chunk.threads), generator, f), f);
    if (threadIdx.x >= 32) return;
    whole = lane_product(whole, chunk.low, generator, f);
    whole = lane_product(whole, chunk.high, generator, f);
    if (threadIdx.x < D) atomicAdd(sums + uint64_t(chunk.row) * D + threadIdx.x, whole);
}

// The sums of words[i] z^i over a row, where z is a point of the field.
KERNEL(256)
words31_evaluate_1(const uint32_t* words, const Extension31<1>* powers, unsigned long long* sums,
                   uint64_t length, uint32_t chunks, uint32_t per_thread, uint32_t lg_low,
                   uint32_t generator, const Modulus31 f) {
    evaluate(words, powers, sums, length, chunks, per_thread, lg_low, generator, f);
}
EXPORT_KERNEL(words31_evaluate_1);

// The same for a point of the extension.
KERNEL(256)
words31_evaluate_8(const uint32_t* words, const Extension31<DEGREE>* powers,
                   unsigned long long* sums, uint64_t length, uint32_t chunks, uint32_t per_thread,
                   uint32_t lg_low, uint32_t generator, const Modulus31 f) {
    evaluate(words, powers, sums, length, chunks, per_thread, lg_low, generator, f);
}
EXPORT_KERNEL(words31_evaluate_8);

// The value at a point z of the extension of the polynomial whose value at c_i is words[i]; the
// tables have the c_i, all roots of unity of the row's order. The value is a factor times the sum
// of words[i] c_i / (z - c_i). With m, the characteristic polynomial of z, 1 / (z - c) is
// -q(z) / m(c) for the quotient q = (m - m(c)) / (Y - c), whose coefficients Horner's rule
// computes in the field.
//
// `polynomial` has the coefficients of m but for the leading 1, `point_powers` z^i times the factor.
KERNEL(256)
words31_interpolate(const uint32_t* words, const Extension31<1>* places,
                    unsigned long long* sums, const Extension31<DEGREE>* point_powers,
                    uint64_t length, uint32_t chunks, uint32_t per_thread, uint32_t lg_low,
                    const Extension31<DEGREE> polynomial, uint32_t one, const Modulus31 f) {
    const Chunk31<1> chunk(words, places, length, chunks, per_thread, lg_low);
    uint32_t own = montgomery(entry(chunk.low->word), entry(chunk.high->word), f);
    own = montgomery(own, entry(chunk.threads->word), f);
    Extension31<DEGREE> sum = {};
#pragma unroll 1
    for (uint32_t first = 0; first < per_thread; first += GROUP) {
        if (first * THREADS >= chunk.left) break;
        uint32_t quotients[GROUP][DEGREE], scaled[GROUP], values[GROUP], before[GROUP];
        uint32_t all = one;
#pragma unroll
        for (uint32_t k = 0; k < GROUP; k++) {
            const uint32_t place = montgomery(own, entry(chunk.steps[first + k].word), f);
            uint32_t value = one;
#pragma unroll
            for (uint32_t i = DEGREE; i-- > 0;) {
                quotients[k][i] = value;
                value = add(montgomery(value, place, f), polynomial.word[i], f);
            }
            scaled[k] = montgomery(chunk.word(first + k), place, f);
            values[k] = value;
            before[k] = all;
            all = montgomery(all, value, f);
        }
        uint32_t inverted = inverse(all, f);
#pragma unroll
        for (uint32_t k = GROUP; k-- > 0;) {
            const uint32_t scale = montgomery(scaled[k], montgomery(inverted, before[k], f), f);
            inverted = montgomery(inverted, values[k], f);
#pragma unroll
            for (uint32_t i = 0; i < DEGREE; i++)
                sum.word[i] = add(sum.word[i], montgomery(quotients[k][i], scale, f), f);
        }
    }
    const uint32_t weighted = block_sum(sum, f);
    if (threadIdx.x >= 32) return;
    uint32_t value = 0;
#pragma unroll
    for (uint32_t i = 0; i < DEGREE; i++) {
        const uint32_t coefficient = __shfl_sync(FULL_WARP, weighted, int(i));
        const uint32_t power = entry(point_powers[i].word + (threadIdx.x & (DEGREE - 1)));
        value = add(value, montgomery(coefficient, power, f), f);
    }
    if (threadIdx.x < DEGREE) atomicAdd(sums + uint64_t(chunk.row) * DEGREE + threadIdx.x, value);
}
EXPORT_KERNEL(words31_interpolate);

// Reduces sums. Launch: blocks of 256, a thread for each.
KERNEL(256)
words31_reduce(const unsigned long long* sums, uint32_t* out, uint64_t count, const Modulus31 f) {
    const uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i < count) out[i] = uint32_t(sums[i] % f.p);
}
EXPORT_KERNEL(words31_reduce);
