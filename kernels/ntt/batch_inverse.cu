// Inverts a vector of elements of Fr by P. Montgomery's trick, with one inversion per block.
//
// A block inverts THREADS e consecutive elements, e = `elements_per_thread` >= 1, and thread t
// every THREADS-th from element t on. The thread multiplies them and stores each prefix product. A
// tree in shared memory multiplies the threads' products, one thread inverts the root, and the tree
// passes the inverses of the threads' products down. Each thread then walks back and recovers one
// inverse after the other.
//
//   in, out   elements, canonical, in Montgomery form; zeros remain zero. May be the same
//   prefixes  scratch of the same length, uninitialised; may be `out`, or `in` if e = 1
//
// Cost: 3 products per element plus 9 / e: for the 8 warps of a block, the tree takes 31
// warp-wide products and the inversion as long as 40.
//
// Launch: 256 threads; grid: elements / (256 e), rounded up. Shared memory: a tree of 2 THREADS
// elements, root at 1, children of node m at 2 m and 2 m + 1. One barrier before each tree level.
#include "../inverse.cuh"
#include "passes.cuh"

constexpr uint32_t THREADS = 256;

// The canonical product of a canonical element and an arbitrary one.
FN Fr product(const Fr& any, const Fr& x) { return reduce_once<1>(mul(any, x)); }
// in[i], or 1 for zeros and beyond the end.
FN Fr load_factor(const Quad* in, uint64_t i, uint64_t count) {
    const Fr x = i < count ? load_element(in, i) : Fr::zero();
    return is_zero(x) ? Fr::one() : x;
}
// Replaces the products in the tree's leaves by their inverses.
FN void invert_leaves(Quad* tree) {
    const uint32_t t = threadIdx.x;
#pragma unroll 1
    for (uint32_t width = THREADS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (t >= width) continue;
        const uint32_t node = width + t;
        const Fr left = load_element(tree, 2 * node), right = load_element(tree, 2 * node + 1);
        store_element(tree, node, product(left, right));
    }
    // The thread that computed the root inverts it.
    if (t == 0) store_element(tree, 1, inverse(load_element(tree, 1)));
#pragma unroll 1
    for (uint32_t width = 2; width <= THREADS; width *= 2) {
        __syncthreads();
        Fr inverted;
        if (t < width) {
            const uint32_t node = width + t;
            inverted = product(load_element(tree, node / 2), load_element(tree, node ^ 1));
        }
        __syncthreads(); // all have read the sibling
        if (t < width) store_element(tree, width + t, inverted);
    }
}

KERNEL(256, 3)
fr_batch_inverse(const Quad* in, Quad* out, Quad* prefixes, uint64_t count,
                 uint32_t elements_per_thread) {
    SHARED(Quad, tree, 4 * THREADS);
    const uint64_t first = uint64_t(blockIdx.x) * THREADS * elements_per_thread + threadIdx.x;
    Fr all = load_factor(in, first, count);
#pragma unroll 1
    for (uint32_t k = 1; k < elements_per_thread; k++) {
        const uint64_t i = first + uint64_t(k) * THREADS;
        if (i >= count) break;
        store_element(prefixes, i, all);
        all = product(all, load_factor(in, i, count));
    }
    store_element(tree, THREADS + threadIdx.x, all);
    invert_leaves(tree);
    Fr inverted = load_element(tree, THREADS + threadIdx.x); // of the remaining product
#pragma unroll 1
    for (uint32_t k = elements_per_thread - 1; k > 0; k--) {
        const uint64_t i = first + uint64_t(k) * THREADS;
        if (i >= count) continue; // beyond the end, where the factor is 1
        const Fr x = load_element(in, i), others = load_element(prefixes, i);
        if (is_zero(x)) {
            store_element(out, i, x);
            continue;
        }
        store_element(out, i, product(inverted, others));
        inverted = mul(inverted, x);
    }
    if (first >= count) return;
    const bool is_left = !is_zero(load_element(in, first));
    store_element(out, first, is_left ? reduce_once<1>(inverted) : Fr::zero());
}
EXPORT_KERNEL(fr_batch_inverse);
