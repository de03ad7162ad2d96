// Tables of multiples: table t, 1 <= t <= count, becomes 2^doublings times table t - 1, or 2^fewer
// where bit t of `near` is set; canonical affine, and infinity stays what it is.
//
// A thread owns a point and the chain of its multiples. Forward it doubles in Jacobian coordinates
// and leaves X and Y of each multiple in its table, Z and the product of all Z before in scratch;
// then it inverts the product of all; and backward it takes 1 / Z of each and writes the affine
// point over X and Y. That is 2M + 3S and a difference of products a doubling, and 6M and a square a
// multiple.
//
// tables: count + 1 of n points, `stride` points apart; count < 32. The first is read.
// Launch: blocks of the kernel's size, a thread a point at least. Scratch, 16-byte pieces: 2 QUADS<F>
// * count * threads of the grid, uninitialised. Dynamic shared memory: 6 elements a thread. An
// inversion is worth some 32 doublings of G1. Barriers: none.
#define CURVE_FEW_REGISTERS
#include "../memory.cuh"

// What a thread works on, in its columns of shared memory: registers are for products.
template <class F, uint32_t T> FN Multiple<F, Column<F, T>> multiple_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, T>(shared, k); };
    return {at(0), at(1), at(2), at(3), at(4)};
}
template <class F, uint32_t T> struct TableChain {
    static constexpr uint32_t SHARED_ELEMENTS = 6;
    Affine<F>* tables; // from the chain's point on
    uint32_t stride, count;
    Quad* scratch;
    FN uint32_t threads() const { return gridDim.x * T; }

    FN Quad* kept(uint32_t t, uint32_t part) const {
        return scratch + uint64_t(2 * t + part) * QUADS<F> * threads();
    }
    FN Affine<F>* at(uint32_t t) const { return tables + uint64_t(t) * stride; }
    // The product of all Z.
    FN F forward(const Affine<F>& p, uint32_t doublings, uint32_t fewer, uint32_t near,
                 Quad* shared) const {
        auto s = multiple_in_shared<F, T>(shared);
        const auto product = column<F, T>(shared, 5);
        s.x = p.x, s.y = p.y, s.z = one<F>();
        product = one<F>();
#pragma unroll 1
        for (uint32_t t = 1; t <= count; t++) {
#pragma unroll 1
            for (uint32_t k = near >> t & 1 ? fewer : doublings; k > 0; k--) double_in_place(s);
            const F z = s.z, before = product;
            store(kept(t - 1, 0), z, threads());
            store(kept(t - 1, 1), before, threads());
            product = times(before, z);
            store_affine(at(t), Affine<F>{F(s.x), F(s.y)});
        }
        return product;
    }
    FN void backward(F u) const {
#pragma unroll 1
        for (uint32_t t = count; t > 0; t--) {
            Affine<F>* const to = at(t);
            const F i = times(u, load<F>(kept(t - 1, 1), threads()));
            u = times(u, load<F>(kept(t - 1, 0), threads()));
            const F ii = squared(i);
            store(&to->x, canonical(times(load<F>(&to->x), ii)));
            store(&to->y, canonical(times(load<F>(&to->y), times(ii, i))));
        }
    }
    FN void infinite() const {
#pragma unroll 1
        for (uint32_t t = count; t > 0; t--) store_affine(at(t), infinity<F>());
    }
};

template <class F, uint32_t T>
FN void make_tables(Affine<F>* tables, Quad* scratch, uint32_t n, uint32_t stride, uint32_t count,
                    uint32_t doublings, uint32_t fewer, uint32_t near, Quad* shared) {
    const uint32_t i = blockIdx.x * T + threadIdx.x;
    if (i >= n) return;
    const TableChain<F, T> work = {tables + i, stride, count, scratch + i};
    const Affine<F> p = load_affine(work.at(0));
    if (is_infinity(p)) {
        work.infinite();
    } else {
        work.backward(inverse(work.forward(p, doublings, fewer, near, shared)));
    }
}

#define TABLES(name, F, threads, blocks) \
    KERNEL(threads, blocks) \
    name(Affine<F>* tables, Quad* scratch, uint32_t n, uint32_t stride, uint32_t count, \
         uint32_t doublings, uint32_t fewer, uint32_t near) { \
        DYNAMIC_SHARED(Quad, stage); \
        make_tables<F, threads>(tables, scratch, n, stride, count, doublings, fewer, near, \
                                stage); \
    } \
    EXPORT_KERNEL(name);
TABLES(g1_tables, Fp, 128, 4)
TABLES(g2_tables, Fp2, 64, 4)
