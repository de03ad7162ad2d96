// Tables of multiples: table t, 1 <= t <= count, is table t - 1 doubled `doublings` times, or
// `short_doublings` times if bit t of `short_mask` is set. After doubling k, counted from 0, the
// original point is added to its multiple if bit k of `adds` is set: no bits for powers of two, bit
// 2 for 9 times a power of two. Results are canonical affine; infinity remains infinity.
//
// A thread owns a point and the chain of its multiples. The formulas use no constant of the curve,
// so X and Y of a Jacobian multiple are an affine point of another curve. The next multiple is
// computed from that, with its own Z: the ratio of both multiples' Z on the first curve. Forward,
// the thread stores X and Y of each multiple in its table, where additions read them, and the ratio
// in scratch. Then it inverts the product of all ratios, which is the last multiple's Z. Backward,
// each ratio gives 1 / Z of the previous multiple, and the affine point overwrites X and Y. A
// doubling is 2M + 3S and a difference of products, one M less for a multiple's first; an addition
// 6M + 3S and a difference; each multiple 5M + S more.
//
// tables: count + 1 of n points, `stride` points apart; count < 32. The first is the input. If
// `adds` is not 0, points other than infinity must have an order above the factor (r is), or their
// multiples are wrong.
// Launch: blocks of the kernel's size, at least one thread per point. Scratch, 16-byte pieces:
// QUADS<F> * count * threads of the grid, uninitialised. Dynamic shared memory: 6 elements per
// thread. An inversion costs as much as some 32 doublings of G1. Barriers: none.
// Faster than inlined, and compiled in half the time: benches/experiments/kernels-build.md.
#define CURVE_CALLS_FP
#include "../memory.cuh"

// A thread's working state, in its columns of shared memory, since products need the registers.
template <class F, uint32_t THREADS>
FN JacobianAccumulator<F, SharedColumn<F, THREADS>> accumulator_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, THREADS>(shared, k); };
    return {at(0), at(1), at(2), at(3), at(4)};
}
// An element in a table, loaded at each use.
template <class F> struct TableElement {
    const F* at;
    FN operator F() const { return load<F>(at); }
};
// How a table is computed from the previous one.
struct DoublingSteps {
    uint32_t doublings, short_doublings, short_mask, adds;
    FN uint32_t of(uint32_t t) const { return short_mask >> t & 1 ? short_doublings : doublings; }
};
// Replaces s = (X, Y), the point at `base`, by its multiple.
template <class F, class Cell>
FN void multiply(JacobianAccumulator<F, Cell>& s, const Affine<F>* base, uint32_t doublings,
                 uint32_t adds) {
    s.z = one<F>();
#pragma unroll 1
    for (uint32_t k = 0; k < doublings; k++, adds >>= 1) {
        if (k == 0) {
            s.z = F(s.y);
        } else {
            s.z = times(F(s.y), F(s.z));
        }
        double_xy(s);
        if (adds & 1) add_different(s, TableElement<F>{&base->x}, TableElement<F>{&base->y});
    }
}
template <class F, uint32_t THREADS> struct MultiplesChain {
    Affine<F>* tables; // at the chain's point
    uint32_t stride, count;
    Quad* scratch;
    FN uint32_t threads() const { return gridDim.x * THREADS; }

    FN Quad* ratio(uint32_t t) const {
        return scratch + uint64_t(t - 1) * QUADS<F> * threads();
    }
    FN Affine<F>* at(uint32_t t) const { return tables + uint64_t(t) * stride; }
    // Returns the last multiple's Z.
    FN F forward(const Affine<F>& p, const DoublingSteps& steps, Quad* shared) const {
        auto s = accumulator_in_shared<F, THREADS>(shared);
        const auto z = column<F, THREADS>(shared, 5);
        s.x = p.x, s.y = p.y;
        z = one<F>();
#pragma unroll 1
        for (uint32_t t = 1; t <= count; t++) {
            multiply(s, at(t - 1), steps.of(t), steps.adds);
            store_affine(at(t), Affine<F>{F(s.x), F(s.y)});
            const F own = s.z;
            store(ratio(t), own, threads());
            z = times(F(z), own);
        }
        return z;
    }
    // u: 1 / Z of the last multiple.
    FN void backward(F u) const {
#pragma unroll 1
        for (uint32_t t = count; t > 0; t--) {
            Affine<F>* const to = at(t);
            const F uu = squared(u);
            store(&to->x, canonical(times(load<F>(&to->x), uu)));
            store(&to->y, canonical(times(load<F>(&to->y), times(uu, u))));
            u = times(u, load<F>(ratio(t), threads()));
        }
    }
    FN void infinite() const {
#pragma unroll 1
        for (uint32_t t = count; t > 0; t--) store_affine(at(t), infinity<F>());
    }
};

template <class F, uint32_t THREADS>
FN void make_tables(Affine<F>* tables, Quad* scratch, uint32_t n, uint32_t stride, uint32_t count,
                    const DoublingSteps& steps, Quad* shared) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const MultiplesChain<F, THREADS> work = {tables + i, stride, count, scratch + i};
    const Affine<F> p = load_affine(work.at(0));
    if (is_infinity(p)) {
        work.infinite();
    } else {
        work.backward(inverse(work.forward(p, steps, shared)));
    }
}

#define TABLES(name, F, threads, blocks) \
    KERNEL(threads, blocks) \
    name(Affine<F>* tables, Quad* scratch, uint32_t n, uint32_t stride, uint32_t count, \
         uint32_t doublings, uint32_t short_doublings, uint32_t short_mask, uint32_t adds) { \
        DYNAMIC_SHARED(Quad, stage); \
        const DoublingSteps steps = {doublings, short_doublings, short_mask, adds}; \
        make_tables<F, threads>(tables, scratch, n, stride, count, steps, stage); \
    } \
    EXPORT_KERNEL(name);
TABLES(g1_tables, Fp, 128, 4)
TABLES(g2_tables, Fp2, 64, 4)
