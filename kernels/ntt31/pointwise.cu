// Arithmetic on vectors over 31-bit primes, element by element. Elements are words below p in
// Montgomery form. Outputs may be inputs: a thread reads all its words before it writes.
//
// A thread has WORDS words, THREADS apart, so that several loads are under way. No shared memory,
// no barriers. Launch: blocks of 256; words / TILE, rounded up. Memory decides the time, except for
// inverses: a thread computes x^(p - 2), about 45 products.
//
// Prefix products are scans of rows, in chunks of TILE words: the products of chunks, their prefix
// products by the same kernels, and a scan of each chunk from there.
#include "../warp.cuh"
#include "field.cuh"

constexpr uint32_t THREADS = 256, WORDS = 4, TILE = WORDS * THREADS;
constexpr uint32_t TERMS31_MAX = 8;

enum Operation31 : uint32_t { ADD, SUBTRACT, MULTIPLY, MULTIPLY_ADD, MULTIPLY_SUBTRACT, INVERT };

// Calls `use` with the number of each of the thread's words, below `count`, and its place.
template <class Use> FN void each_word(uint64_t count, Use use) {
    const uint64_t first = uint64_t(blockIdx.x) * TILE + threadIdx.x;
#pragma unroll
    for (uint32_t k = 0; k < WORDS; k++) {
        const uint64_t i = first + k * THREADS;
        if (i < count) use(i, k);
    }
}
FN void load_words(uint32_t (&x)[WORDS], const uint32_t* from, uint64_t count) {
    each_word(count, [&](uint64_t i, uint32_t k) { x[k] = from[i]; });
}
template <class Value> FN void store_values(uint32_t* out, uint64_t count, Value value) {
    uint32_t values[WORDS];
#pragma unroll
    for (uint32_t k = 0; k < WORDS; k++) values[k] = value(k);
    each_word(count, [&](uint64_t i, uint32_t k) { out[i] = values[k]; });
}

// Operands that the operation does not have may be null.
KERNEL(256)
words31_pointwise(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out,
                  uint64_t count, uint32_t operation, const Modulus31 f) {
    uint32_t x[WORDS] = {}, y[WORDS] = {}, z[WORDS] = {};
    load_words(x, a, count);
    if (operation != INVERT) load_words(y, b, count);
    const bool has_sum = operation == MULTIPLY_ADD || operation == MULTIPLY_SUBTRACT;
    if (has_sum) load_words(z, c, count);
    const auto product = [&](uint32_t k) { return montgomery(x[k], y[k], f); };
    switch (operation) {
    case ADD: return store_values(out, count, [&](uint32_t k) { return add(x[k], y[k], f); });
    case SUBTRACT:
        return store_values(out, count, [&](uint32_t k) { return subtract(x[k], y[k], f); });
    case MULTIPLY: return store_values(out, count, product);
    case MULTIPLY_ADD:
        return store_values(out, count, [&](uint32_t k) { return add(product(k), z[k], f); });
    case MULTIPLY_SUBTRACT:
        return store_values(out, count, [&](uint32_t k) { return subtract(product(k), z[k], f); });
    case INVERT: return store_values(out, count, [&](uint32_t k) { return inverse(x[k], f); });
    }
}
EXPORT_KERNEL(words31_pointwise);

struct Factors31 {
    uint32_t word[TERMS31_MAX];
};

// out[i] = the sum of factors[k] v_k[i] over k < terms. Later vectors are not read.
KERNEL(256)
words31_linear_combination(const uint32_t* v0, const uint32_t* v1, const uint32_t* v2,
                           const uint32_t* v3, const uint32_t* v4, const uint32_t* v5,
                           const uint32_t* v6, const uint32_t* v7, uint32_t* out,
                           const Factors31 factors, uint64_t count, uint32_t terms,
                           const Modulus31 f) {
    const uint32_t* const vectors[TERMS31_MAX] = {v0, v1, v2, v3, v4, v5, v6, v7};
    uint32_t sums[WORDS] = {};
#pragma unroll
    for (uint32_t term = 0; term < TERMS31_MAX; term++) {
        if (term >= terms) break;
        uint32_t x[WORDS] = {};
        load_words(x, vectors[term], count);
#pragma unroll
        for (uint32_t k = 0; k < WORDS; k++)
            sums[k] = add(sums[k], montgomery(x[k], factors.word[term], f), f);
    }
    store_values(out, count, [&](uint32_t k) { return sums[k]; });
}
EXPORT_KERNEL(words31_linear_combination);

// base^(2^k) for all k below 32.
struct Squares31 {
    uint32_t word[32];
};

// out[i] = first base^i.
KERNEL(256)
words31_powers(uint32_t* out, uint64_t count, uint32_t first, const Squares31 squares,
               const Modulus31 f) {
    uint32_t power = first;
    const uint64_t own = uint64_t(blockIdx.x) * TILE + threadIdx.x;
#pragma unroll
    for (uint32_t bit = 0; bit < 32; bit++)
        if (own >> bit & 1) power = montgomery(power, squares.word[bit], f);
    uint32_t powers[WORDS];
#pragma unroll
    for (uint32_t k = 0; k < WORDS; k++) {
        powers[k] = power;
        power = montgomery(power, squares.word[8], f); // base^THREADS
    }
    store_values(out, count, [&](uint32_t k) { return powers[k]; });
}
EXPORT_KERNEL(words31_powers);

// Copies `length` words of each row; `words` in all, less than 2^32. The memories do not overlap.
KERNEL(256)
words31_copy_rows(const uint32_t* from, uint32_t* to, uint32_t length, uint64_t from_stride,
                  uint64_t to_stride, uint64_t words) {
    uint32_t x[WORDS];
    each_word(words, [&](uint64_t i, uint32_t k) {
        const uint32_t row = uint32_t(i) / length;
        x[k] = from[row * from_stride + uint32_t(i) % length];
    });
    each_word(words, [&](uint64_t i, uint32_t k) {
        const uint32_t row = uint32_t(i) / length;
        to[row * to_stride + uint32_t(i) % length] = x[k];
    });
}
EXPORT_KERNEL(words31_copy_rows);

// Decodes words in place: canonical ones to Montgomery form, or words in that form. `reduce`: words
// of p and above are reduced. Else they become 0, and *first_bad, initially 0, becomes the greatest
// ~i of all: its complement is the first.
KERNEL(256)
words31_decode(uint32_t* words, unsigned long long* first_bad, uint64_t count,
               uint32_t is_montgomery, uint32_t reduce, const Modulus31 f) {
    uint32_t x[WORDS] = {};
    load_words(x, words, count);
    if (!reduce) {
        each_word(count, [&](uint64_t i, uint32_t k) {
            if (x[k] >= f.p) {
                atomicMax(first_bad, ~static_cast<unsigned long long>(i));
                x[k] = 0;
            }
        });
    }
    if (is_montgomery) {
        // A product by 2^32 reduces any word.
        store_values(words, count, [&](uint32_t k) {
            return reduce ? montgomery(montgomery(x[k], f.r_squared, f), 1, f) : x[k];
        });
    } else {
        store_values(words, count, [&](uint32_t k) { return montgomery(x[k], f.r_squared, f); });
    }
}
EXPORT_KERNEL(words31_decode);

// Converts words from Montgomery form to canonical integers, in place.
KERNEL(256)
words31_encode(uint32_t* words, uint64_t count, const Modulus31 f) {
    uint32_t x[WORDS] = {};
    load_words(x, words, count);
    store_values(words, count, [&](uint32_t k) { return montgomery(x[k], 1, f); });
}
EXPORT_KERNEL(words31_encode);

struct Multiply31 {
    Modulus31 f;
    FN uint32_t operator()(uint32_t a, uint32_t b) const { return montgomery(a, b, f); }
};

// A chunk of TILE words of a row of `length`, one per block: a thread has WORDS adjacent ones.
struct RowChunk31 {
    uint64_t first, left; // of the thread's words: the first one, and those up to the row's end

    FN RowChunk31(uint64_t length, uint32_t chunks) {
        const uint64_t row = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
        const uint64_t in_row = chunk * TILE + threadIdx.x * WORDS;
        first = row * length + in_row;
        left = in_row < length ? length - in_row : 0;
    }
    // Replaces each word by the product of those up to it. Words beyond the end are 1.
    FN void products(uint32_t (&x)[WORDS], const uint32_t* from, uint32_t one,
                     const Multiply31& op) const {
        uint32_t all = one;
#pragma unroll
        for (uint32_t k = 0; k < WORDS; k++) x[k] = k < left ? from[first + k] : one;
#pragma unroll
        for (uint32_t k = 0; k < WORDS; k++) x[k] = all = op(all, x[k]);
    }
};

// products[block] = the product of a chunk.
KERNEL(256)
words31_chunk_products(const uint32_t* values, uint32_t* products, uint64_t length,
                       uint32_t chunks, const Modulus31 f) {
    SHARED(uint32_t, partials, LANES);
    const Multiply31 op{f};
    const uint32_t one = montgomery(f.r_squared, 1, f);
    uint32_t x[WORDS];
    RowChunk31(length, chunks).products(x, values, one, op);
    const uint32_t all = block_reduce(x[WORDS - 1], one, partials, op);
    if (threadIdx.x == 0) products[blockIdx.x] = all;
}
EXPORT_KERNEL(words31_chunk_products);

// out[i] = the product of the row's words up to i. `carries` has those of the chunks' products, and
// is not read if a row is one chunk.
KERNEL(256)
words31_prefix_products(const uint32_t* values, uint32_t* out, const uint32_t* carries,
                        uint64_t length, uint32_t chunks, const Modulus31 f) {
    SHARED(uint32_t, partials, LANES);
    const Multiply31 op{f};
    const uint32_t one = montgomery(f.r_squared, 1, f);
    const RowChunk31 chunk(length, chunks);
    uint32_t x[WORDS], total;
    chunk.products(x, values, one, op);
    uint32_t below = block_scan(x[WORDS - 1], one, partials, total, op);
    if (blockIdx.x % chunks > 0) below = op(carries[blockIdx.x - 1], below);
#pragma unroll
    for (uint32_t k = 0; k < WORDS; k++)
        if (k < chunk.left) out[chunk.first + k] = op(below, x[k]);
}
EXPORT_KERNEL(words31_prefix_products);
