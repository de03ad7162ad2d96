// Inverts a vector of elements of Fr by P. Montgomery's trick, one inversion a block.
//
// A block has THREADS each neighbouring elements, thread t every THREADS-th of them from number t
// on. It multiplies them, keeping the product of those before each; a tree in shared memory
// multiplies the threads' products, one thread inverts the root, and the tree hands inverses of the
// threads' products down. Backward each thread peels off one element after the other.
//
//   in, out   elements, canonical, in Montgomery form; zeros stay zero. May be the same
//   before    room for as many, anything at first; may be `out`, not `in` unless each = 1
//   each      elements of a thread, at least 1
//
// Products: 3 an element. The tree takes 31 for each lane of a block, each of its 8 warps together,
// and an inversion some 40: 9 / each more an element.
//
// Launch: 256 threads; grid: elements / (256 each), rounded up. Shared memory: a tree of 2 THREADS
// elements, root at 1, children of node m at 2 m and 2 m + 1. A barrier before each level of it.
#include "../inverse.cuh"
#include "passes.cuh"

constexpr uint32_t THREADS = 256;

// The product of a canonical element and of any, canonical.
FN Fr product(const Fr& any, const Fr& x) { return reduce_once<1>(mul(any, x)); }
// What takes part in products: not zeros, nor what lies beyond the end.
FN Fr load_factor(const Quad* in, uint64_t i, uint64_t count) {
    const Fr x = i < count ? load_element(in, i) : Fr::zero();
    return is_zero(x) ? Fr::one() : x;
}
// From products in the tree's leaves to their inverses there.
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
    // Whoever made the root.
    if (t == 0) store_element(tree, 1, inverse(load_element(tree, 1)));
#pragma unroll 1
    for (uint32_t width = 2; width <= THREADS; width *= 2) {
        __syncthreads();
        Fr inverted;
        if (t < width) {
            const uint32_t node = width + t;
            inverted = product(load_element(tree, node / 2), load_element(tree, node ^ 1));
        }
        __syncthreads(); // all have read their sibling
        if (t < width) store_element(tree, width + t, inverted);
    }
}

KERNEL(256, 3)
fr_invert(const Quad* in, Quad* out, Quad* before, uint64_t count, uint32_t each) {
    SHARED(Quad, tree, 4 * THREADS);
    const uint64_t first = uint64_t(blockIdx.x) * THREADS * each + threadIdx.x;
    Fr all = load_factor(in, first, count);
#pragma unroll 1
    for (uint32_t k = 1; k < each; k++) {
        const uint64_t i = first + uint64_t(k) * THREADS;
        if (i >= count) break;
        store_element(before, i, all);
        all = product(all, load_factor(in, i, count));
    }
    store_element(tree, THREADS + threadIdx.x, all);
    invert_leaves(tree);
    Fr inverted = load_element(tree, THREADS + threadIdx.x); // of the product of what is left
#pragma unroll 1
    for (uint32_t k = each - 1; k > 0; k--) {
        const uint64_t i = first + uint64_t(k) * THREADS;
        if (i >= count) continue; // a factor 1
        const Fr x = load_element(in, i), others = load_element(before, i);
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
EXPORT_KERNEL(fr_invert);
