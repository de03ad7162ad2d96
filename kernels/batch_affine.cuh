// Batched affine addition: out[i] = the sum of the points of pair i, one inversion per chain.
//
// Each thread walks its own chain twice. Forward it multiplies the denominators of the slopes and
// stores each prefix product. Then it inverts once. Backward it recovers one inverse after the
// other: the inverse of d_k is u prefix_k, then u <- u d_k, and the sum is completed. 5M + 1S per
// sum (P. Montgomery 1987, and the affine chord and tangent).
//
// Launch: a block of the kernel's size; dynamic shared memory for five columns (batch/stage.cuh).
// Scratch: SCRATCH_QUADS * chain * (threads of the grid) pieces of 16 bytes, uninitialised. Chains
// of 128 to 256 are best: one inversion costs as much as five sums (benches/experiments/msm.md).
// Barriers: those of the tree that shares one inversion among warps, and __syncwarp, since lanes
// fetch for each other into columns that otherwise belong to one thread.
// Output: x canonical, y < 2p; infinity is x = y = 0 mod p.
#pragma once
#include "batch/special_cases.cuh"
#include "batch/stage.cuh"
#include "inverse_split.cuh"

// Forward walks are bound by memory and backward walks by multipliers, so blocks are staggered: the
// block index shortens a block's first chain, which is 6 % faster. Warps of one block remain in
// step, for the instruction cache (benches/experiments/gpu-arithmetic.md).
constexpr uint32_t STAGGER = 12;
// With fewer rows per warp, the extra inversion costs more than staggering gains. Figures were
// not kept.
constexpr uint32_t STAGGER_ROWS_MIN = 96;

// KEEP_X: the forward walk writes both x to scratch, in order, and the backward walk reads them: 96
// more bytes each way instead of two more gathers. For G1 points gathered from a large table.
template <class F, bool KEEP_X, uint32_t THREADS> struct BatchChain {
    // Columns in shared memory.
    static constexpr uint32_t AX = 0, BX = 1, AY = 2, BY = 3, PREFIX = 4;
    static constexpr uint32_t SCRATCH_QUADS = (KEEP_X ? 3 : 1) * QUADS<F>;

    Summands<F> summands;
    Affine<F>* out;
    SummandColumns<F, THREADS> stage;
    Quad* slot; // this thread's column in the block's rows of scratch
    uint32_t first, steps; // sums first, first + 32, ...
    uint32_t last;         // replaces indices beyond it

    FN SharedColumn<F, SummandColumns<F, THREADS>::STRIDE> staged(uint32_t k) const {
        return stage.column(k);
    }
    FN Quad* kept(uint32_t k) const {
        return opaque(slot + uint64_t(k) * (SCRATCH_QUADS * THREADS));
    }
    FN uint32_t index(uint32_t k) const {
        const uint32_t i = first + 32 * k;
        return i < last ? i : last;
    }
    FN Pair pair(uint32_t k) const { return summands.pairs[index(k)]; }
    FN void fetch_x(const Pair& pair) const { stage.fetch(AX, summands.table, pair, 0); }
    FN void fetch_kept(const Pair& pair, uint32_t k) const {
        const Quad* const row = kept(k);
        if (KEEP_X) {
            staged(AX).fetch_from(row + QUADS<F> * THREADS, THREADS);
            staged(BX).fetch_from(row + 2 * QUADS<F> * THREADS, THREADS);
        } else {
            fetch_x(pair);
        }
        staged(PREFIX).fetch_from(row, THREADS);
        copies_commit();
    }
    FN void fetch_y(const Pair& pair) const {
        stage.fetch(AY, summands.table, pair, 1);
        copies_commit();
    }
    FN F denominator(const Pair& pair, const F& ax, const F& bx) const {
        F d = sub_lazy<1>(bx, ax);
        if (may_be_special(ax, bx)) d = special_denominator<F>(summands, pair);
        return d;
    }
    // The product of all denominators, below 2p. Fetches the next pair's x while it computes.
    FN F forward() const {
        Pair coming = pair(0), later = pair(steps > 1 ? 1 : 0);
        fetch_x(coming);
        copies_commit();
        F u = one<F>();
#pragma unroll 1
        for (uint32_t k = 0; k < steps; k++) {
            copies_wait<0>();
            __syncwarp();
            const F ax = staged(AX), bx = staged(BX);
            const Pair now = coming;
            coming = later;
            if (k + 1 < steps) fetch_x(coming);
            copies_commit();
            if (k + 2 < steps) later = pair(k + 2);
            Quad* const row = kept(k);
            store(row, u, THREADS);
            if (KEEP_X) {
                store(row + QUADS<F> * THREADS, ax, THREADS);
                store(row + 2 * QUADS<F> * THREADS, bx, THREADS);
            }
            u = times(u, denominator(now, ax, bx));
        }
        return u;
    }
    // Writes the sums, given u, the inverse of forward()'s product. Fetches into a column as soon
    // as its last reader is done. x and prefixes are one group of copies, y the next.
    FN void backward(F u) const {
        __threadfence(); // asynchronous copies read what forward() stored
        Pair now = pair(steps - 1);
        fetch_kept(now, steps - 1);
        fetch_y(now);
#pragma unroll 1
        for (uint32_t k = steps - 1;; k--) {
            const Pair coming = pair(k > 0 ? k - 1 : 0);
            copies_wait<1>();
            __syncwarp();
            staged(PREFIX) = times(u, F(staged(PREFIX))); // of this step's denominator
            u = times(u, denominator(now, F(staged(AX)), F(staged(BX))));
            copies_wait<0>();
            __syncwarp();
            const bool special = may_be_special(F(staged(AX)), F(staged(BX)));
            F numerator = sub_lazy<2>(with_sign(F(staged(BY)), now.second), first_y(now));
            if (special) numerator = special_numerator<F>(summands, now);
            const F slope = times(reduce_factor(numerator), F(staged(PREFIX))); // < 2p
            const F sum = add_lazy(F(staged(AX)), F(staged(BX)));
            const F x = canonical(sub_lazy<2>(squared(slope), sum)); // < 4p before
            Affine<F>* const to = out + index(k);
            store(&to->x, x);
            const F across = sub_lazy<1>(F(staged(AX)), x);
            if (k > 0) fetch_kept(coming, k - 1);
            const F y = sub_loose(times(slope, across), first_y(now));
            if (k > 0) fetch_y(coming);
            store(&to->y, y);
            if (special) store_special_sum(to, summands, now);
            if (k == 0) break;
            now = coming;
        }
    }
    FN F first_y(const Pair& pair) const { return with_sign(F(staged(AY)), pair.first); }
};

// Shares one inversion among all warps of a block, for each lane index separately: products of two
// go up a tree, inverses come down. Node 1 is the root, node k's children are 2k and 2k + 1, and
// the leaves are the warps. Nodes use the columns of the chain, which are free in between. Each
// level begins with a barrier, and the last one ends with one.
template <class F, uint32_t THREADS> struct InverseTree {
    static constexpr uint32_t WARPS = THREADS / LANES;
    static_assert((WARPS & (WARPS - 1)) == 0, "each node has two children");
    static constexpr uint32_t STRIDE = SummandColumns<F, THREADS>::STRIDE;
    Quad* shared;

    // A lane's node k, in the two columns from `pair` on.
    FN SharedColumn<F, STRIDE> node(uint32_t pair, uint32_t k, uint32_t lane = lane_index()) const {
        return {shared + (pair + k / WARPS) * QUADS<F> * STRIDE + k % WARPS * LANES + lane};
    }
    FN void up(F u) const {
        const uint32_t warp = warp_index();
        node(0, WARPS + warp) = u;
#pragma unroll 1
        for (uint32_t half = WARPS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (warp >= half) continue;
            const uint32_t k = half + warp;
            u = times(F(node(0, 2 * k)), F(node(0, 2 * k + 1)));
            node(0, k) = u;
        }
    }
    // By the first four warps, one per scheduler.
    FN void invert_root() const {
        __syncthreads();
#pragma unroll 1
        for (uint32_t lane = threadIdx.x / GCD_LANES; lane < LANES; lane += THREADS / GCD_LANES) {
            const F inverted = inverse_split(F(node(0, 1, lane)));
            if (lane_index() % GCD_LANES == 3) node(2, 1, lane) = inverted;
        }
    }
    // Returns each warp's inverse.
    FN F down() const {
        const uint32_t warp = warp_index();
        F u;
#pragma unroll 1
        for (uint32_t width = 2; width <= WARPS; width *= 2) {
            __syncthreads();
            if (warp >= width) continue;
            const uint32_t k = width + warp;
            u = times(F(node(2, k / 2)), F(node(0, k ^ 1)));
            node(2, k) = u;
        }
        __syncthreads(); // the chain uses the columns again
        return u;
    }
};

// Computes n > 0 sums, in chains of at most `chain` steps. Each warp owns a range of rows of 32
// sums. All threads of the block take part.
template <class F, bool KEEP_X, uint32_t THREADS>
FN void add_batched(Affine<F>* out, Quad* scratch, Quad* shared, const Summands<F>& summands,
                    uint32_t n, uint32_t chain) {
    // Broadcast, so that the compiler knows that a warp's lanes agree.
    const uint32_t warp = blockIdx.x * (THREADS / LANES) + broadcast(warp_index(), 0);
    const uint32_t all = gridDim.x * (THREADS / LANES);
    using Chain = BatchChain<F, KEEP_X, THREADS>;
    Quad* const slot = scratch + uint64_t(blockIdx.x) * chain * (Chain::SCRATCH_QUADS * THREADS);
    Chain work = {summands, out, {shared}, slot + threadIdx.x, 0, 0, n - 1};
    const InverseTree<F, THREADS> tree = {shared};
    const uint32_t rows = (n + 31) / 32, share = (rows + all - 1) / all;
    const uint32_t begin = warp * share, end = begin + share < rows ? begin + share : rows;
    uint32_t length = chain;
    if (share >= STAGGER_ROWS_MIN) {
        const uint32_t longest = chain < share ? chain : share;
        length = (longest * (blockIdx.x % STAGGER + 1) + STAGGER - 1) / STAGGER;
    }
    // All warps of the block run the same number of chains, some of them empty.
    for (uint32_t done = 0; done < share; done += length, length = chain) {
        const uint32_t row = begin + done, left = row < end ? end - row : 0;
        work.first = row * LANES + lane_index();
        work.steps = left < length ? left : length;
        F u = one<F>();
        if (left > 0) u = work.forward();
        tree.up(u);
        tree.invert_root();
        u = tree.down();
        if (left > 0) work.backward(u);
    }
}
