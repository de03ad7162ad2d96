// Tables of multiples: out[i] = 2^doublings in[i], i < n, canonical affine; infinity stays what it
// is.
//
// A thread owns a chain of points. Forward it doubles each in Jacobian coordinates and leaves X and
// Y in out, Z and the product of all Z before in scratch; then it inverts the product of all; and
// backward it takes 1 / Z of each and writes the affine point over X and Y. 2^k P costs 2M + 3S and
// a difference of products for each doubling, and 8M for the way back.
//
// Launch: blocks of the kernel's size, any grid. Scratch, 16-byte pieces: 2 QUADS<F> * chain *
// threads of the grid, uninitialised. Dynamic shared memory: 6 elements a thread. An inversion is
// worth two doublings of G1. in and out are apart. Barriers: none.
#define CURVE_FEW_REGISTERS
#include "../memory.cuh"

// What a thread works on, in its columns of shared memory: registers are for products.
template <class F, uint32_t T> FN Multiple<F, Column<F, T>> multiple_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, T>(shared, k); };
    return {at(0), at(1), at(2), at(3), at(4)};
}
// 2^doublings P in Jacobian coordinates, for P not infinity.
template <class F, class Cell>
FN void double_repeatedly(Multiple<F, Cell>& s, const Affine<F>& p, uint32_t doublings) {
    s.x = p.x, s.y = p.y, s.z = one<F>();
#pragma unroll 1
    for (uint32_t k = 0; k < doublings; k++) double_in_place(s);
}

template <class F, uint32_t T> struct TableChain {
    static constexpr uint32_t SHARED_ELEMENTS = 6;
    Affine<F>* out;
    const Affine<F>* in;
    Quad* scratch;
    uint32_t stride; // threads of the grid

    FN Quad* kept(uint32_t step, uint32_t part) const {
        return scratch + uint64_t(2 * step + part) * QUADS<F> * stride;
    }
    // Points first + 32 k, 0 <= k < steps. Infinity is left as Z = 0.
    FN F forward(uint32_t first, uint32_t steps, uint32_t doublings, Quad* shared) const {
        auto s = multiple_in_shared<F, T>(shared);
        const auto product = column<F, T>(shared, 5);
        product = one<F>();
#pragma unroll 1
        for (uint32_t k = 0; k < steps; k++) {
            const Affine<F> p = load_affine(in + first + 32 * k);
            const bool infinite = is_infinity(p);
            if (!infinite) double_repeatedly(s, p, doublings);
            const F z = infinite ? zero<F>() : F(s.z);
            store(kept(k, 0), z, stride);
            store(kept(k, 1), F(product), stride);
            if (infinite) continue;
            product = times(F(product), z);
            store_affine(out + first + 32 * k, Affine<F>{F(s.x), F(s.y)});
        }
        return product;
    }
    FN void backward(uint32_t first, uint32_t steps, F u) const {
#pragma unroll 1
        for (uint32_t k = steps; k-- > 0;) {
            Affine<F>* const to = out + first + 32 * k;
            const F z = load<F>(kept(k, 0), stride);
            if (is_zero(z)) {
                store_affine(to, infinity<F>());
                continue;
            }
            const F i = times(u, load<F>(kept(k, 1), stride));
            u = times(u, z);
            const F ii = squared(i);
            store(&to->x, canonical(times(load<F>(&to->x), ii)));
            store(&to->y, canonical(times(load<F>(&to->y), times(ii, i))));
        }
    }
};

// Each warp owns a range of rows of 32 points, as in batch_affine.cuh.
template <class F, uint32_t T>
FN void next_table(Affine<F>* out, const Affine<F>* in, Quad* scratch, uint32_t n,
                   uint32_t doublings, uint32_t chain, Quad* shared) {
    const uint32_t threads = gridDim.x * T;
    const uint32_t thread = blockIdx.x * T + threadIdx.x, warp = thread / 32;
    const TableChain<F, T> work = {out, in, scratch + thread, threads};
    const uint32_t rows = (n + 31) / 32, share = (rows + threads / 32 - 1) / (threads / 32);
    const uint32_t begin = warp * share, end = begin + share < rows ? begin + share : rows;
    for (uint32_t row = begin; row < end; row += chain) {
        const uint32_t first = row * 32 + thread % 32;
        if (first >= n) break;
        const uint32_t left = (n - first + 31) / 32, most = end - row < chain ? end - row : chain;
        const uint32_t steps = left < most ? left : most;
        const F product = work.forward(first, steps, doublings, shared);
        work.backward(first, steps, inverse(product));
    }
}

#define TABLE(name, F, threads, blocks) \
    KERNEL(threads, blocks) \
    name(Affine<F>* out, const Affine<F>* in, Quad* scratch, uint32_t n, uint32_t doublings, \
         uint32_t chain) { \
        DYNAMIC_SHARED(Quad, stage); \
        next_table<F, threads>(out, in, scratch, n, doublings, chain, stage); \
    } \
    EXPORT_KERNEL(name);
TABLE(g1_next_table, Fp, 128, 4)
TABLE(g2_next_table, Fp2, 64, 4)
