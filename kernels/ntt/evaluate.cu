// Evaluates polynomials at a point, from coefficients or from values, as dot products with weights
// from tables. Two evaluations check a transform without a second transform.
//
// fr_dot_chunks: a block sums a chunk of a row, values[i] low[i mod 2^lg_low] high[i / 2^lg_low], i
// in the row; i / 2^lg_low is constant within a chunk. fr_sum_chunks: a block sums the chunks of a
// row. barycentric_weights computes the weights of values. fr_evaluate: like fr_dot_chunks, for
// rows of any length and few weights. Elements are canonical, in Montgomery form. Launch: 128
// threads; grid: chunks; rows; entries / 2^lg_each / 128, rounded up; rows times chunks. Shared
// memory: one element per thread; one barrier per level of the tree.
#include "../inverse.cuh"
#include "block_sum.cuh"
#include "wide_sum.cuh"

constexpr uint32_t THREADS = 128;

// The sum over R, canonical: reduces each third of the limbs separately.
FN Fr reduce(const WideSum& t) {
    Fr low, middle, high = Fr::zero();
#pragma unroll
    for (int i = 0; i < 8; i++) low.w[i] = t.w[i], middle.w[i] = t.w[8 + i];
    high.w[0] = t.w[16];
    return add(add(from_montgomery(low), canonical(middle)), to_montgomery(high));
}

KERNEL(128)
fr_dot_chunks(const Quad* values, const Quad* low, const Quad* high, Quad* partial, uint32_t lg_n,
        uint32_t lg_low, uint32_t lg_chunk) {
    SHARED(Quad, shared, 2 * THREADS);
    const uint64_t chunk = uint64_t(blockIdx.x) << lg_chunk;
    const uint64_t in_row = chunk & ((uint64_t(1) << lg_n) - 1);
    const uint64_t first = in_row & ((uint64_t(1) << lg_low) - 1);
    WideSum sum = zero_sum();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i >> lg_chunk == 0; i += THREADS) {
        add_product(sum, load_element(values, chunk + i), load_element(low, first + i));
    }
    Fr whole = block_sum<THREADS>(reduce(sum), shared);
    if (threadIdx.x > 0) return;
    if (lg_low < lg_n) whole = canonical(mul(whole, load_element(high, in_row >> lg_low)));
    store_element(partial, blockIdx.x, whole);
}
EXPORT_KERNEL(fr_dot_chunks);

KERNEL(128) fr_sum_chunks(const Quad* partial, Quad* sums, uint32_t row_chunks) {
    SHARED(Quad, shared, 2 * THREADS);
    Fr mine = Fr::zero();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < row_chunks; i += THREADS) {
        mine = add(mine, load_element(partial, uint64_t(blockIdx.x) * row_chunks + i));
    }
    mine = block_sum<THREADS>(mine, shared);
    if (threadIdx.x == 0) store_element(sums, blockIdx.x, mine);
}
EXPORT_KERNEL(fr_sum_chunks);

// weights[e] = scale w^j / (z - w^j), j = e or e bit-reversed; z is not a power of w.
// `powers_and_scale` holds w^(2^i) for 32 i, then z, then scale. A thread computes 2^lg_each
// weights by one inversion; scratch has one element per weight.
KERNEL(128)
barycentric_weights(Fr* weights, Fr* scratch, const Quad* powers_and_scale, uint32_t lg_n,
                    uint32_t lg_each, uint32_t reversed) {
    const uint32_t threads = 1u << (lg_n - lg_each), t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= threads) return;
    const auto root = [&](uint32_t i) {
        const uint32_t e = t + i * threads;
        Fr power = Fr::one();
        uint32_t exponent = reversed ? reverse(e, lg_n) : e;
#pragma unroll 1
        for (uint32_t bit = 0; exponent; bit++, exponent >>= 1) {
            if (exponent & 1) power = mul(power, load_element(powers_and_scale, bit));
        }
        return canonical(power);
    };
    const Fr z = load_element(powers_and_scale, 32), scale = load_element(powers_and_scale, 33);
    for (uint32_t i = 0; i < 1u << lg_each; i++) weights[t + i * threads] = sub(z, root(i));
    inverse_batch(weights + t, scratch + t, 1u << lg_each, threads);
    for (uint32_t i = 0; i < 1u << lg_each; i++) {
        Fr& weight = weights[t + i * threads];
        weight = canonical(mul(canonical(mul(weight, root(i))), scale));
    }
}
EXPORT_KERNEL(barycentric_weights);

// The sum of coefficients[i] z^i over a chunk of a row, i relative to the chunk. `weights`: z^j for
// j < 128, then z^(128 k) for k < 128. A thread sums up to `coefficients_per_thread` <= 128
// coefficients, 128 apart. A row's chunk sums are in turn coefficients, at z to the power of a
// chunk's length.
KERNEL(128)
fr_evaluate(const Quad* coefficients, const Quad* weights, Quad* sums, uint64_t length,
            uint32_t chunks, uint32_t coefficients_per_thread) {
    SHARED(Quad, shared, 2 * THREADS);
    const uint64_t first =
        uint64_t(blockIdx.x % chunks) * coefficients_per_thread * THREADS + threadIdx.x;
    const Quad* next = coefficients + 2 * (blockIdx.x / chunks * length + first);
    const uint64_t left = first < length ? (length - first + THREADS - 1) / THREADS : 0;
    const uint32_t mine_count =
        left < coefficients_per_thread ? uint32_t(left) : coefficients_per_thread;
    WideSum sum = zero_sum();
#pragma unroll 1
    for (uint32_t k = 0; k < mine_count; k++, next += 2 * THREADS) {
        add_product(sum, load_element(next, 0), load_element(weights, THREADS + k));
    }
    const Fr mine = canonical(mul(reduce(sum), load_element(weights, threadIdx.x)));
    const Fr whole = block_sum<THREADS>(mine, shared);
    if (threadIdx.x == 0) store_element(sums, blockIdx.x, whole);
}
EXPORT_KERNEL(fr_evaluate);
