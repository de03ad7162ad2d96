// Bulk validation of points from outside: canonical, on the curve, in the subgroup.
//
// A thread processes one point at a time (grid-stride). It reads the point in the encoding `form`
// and writes it back in Montgomery form, in place: infinity as x = y = 0.
//   form 0  Montgomery limbs, little-endian: the layout of device memory
//   form 1  Zcash's uncompressed encoding: big-endian, flags in the first three bits, x before y,
//           and over Fp2 c1 before c0
// first_bad: one word, initially all ones, becomes the least (index << 8 | problem) of all bad
// points, index = first_index + position. A point's problem is the first that applies:
//   1 not canonical   2 not on the curve   3 not in the subgroup
//   4 malformed infinity   5 flags of another encoding
// The contents of a bad point in memory are undefined afterwards.
// Shared memory: static, 8 columns of elements for the subgroup test, since products need the
// registers. Barriers: none.
// Launch: blocks of 128 (G1) and 64 (G2), any grid; three and four blocks fit a multiprocessor.
// As fast as inlined, and compiled in half the time: benches/experiments/kernels-build.md.
#define CURVE_CALLS_FP
#include "../memory.cuh"

enum PointProblem : uint32_t {
    NONE,
    NOT_CANONICAL,
    NOT_ON_CURVE,
    NOT_IN_SUBGROUP,
    BAD_INFINITY,
    BAD_ENCODING
};
enum PointForm : uint32_t { MONTGOMERY, UNCOMPRESSED };
constexpr uint32_t COMPRESSED = 0x80000000u, INFINITE = 0x40000000u, GREATER_Y = 0x20000000u;

FN uint32_t swap_bytes(uint32_t a) {
    return a << 24 | (a & 0xff00u) << 8 | (a >> 8 & 0xff00u) | a >> 24;
}
FN Fp big_endian(const Fp& a) {
    Fp r;
#pragma unroll
    for (int i = 0; i < Fp::N; i++) r.w[i] = swap_bytes(a.w[Fp::N - 1 - i]);
    return r;
}
FN Fp2 big_endian(const Fp2& a) { return {big_endian(a.c1), big_endian(a.c0)}; }
// The limb that holds the flags.
FN uint32_t& flags_of(Fp& x) { return x.w[Fp::N - 1]; }
FN uint32_t& flags_of(Fp2& x) { return x.c1.w[Fp::N - 1]; }

// Decodes p into Montgomery form. Of valid points only infinity has x = y = 0.
template <class F> FN PointProblem decode(Affine<F>& p, uint32_t form) {
    if (form == MONTGOMERY) {
        return is_canonical(p.x) && is_canonical(p.y) ? NONE : NOT_CANONICAL;
    }
    p = {big_endian(p.x), big_endian(p.y)};
    uint32_t& top = flags_of(p.x);
    const uint32_t flags = top;
    if (flags & COMPRESSED) return BAD_ENCODING;
    if (flags & INFINITE) {
        top ^= INFINITE;
        return is_zero(p.x) && is_zero(p.y) ? NONE : BAD_INFINITY;
    }
    if (flags & GREATER_Y) return BAD_ENCODING;
    if (!is_canonical(p.x) || !is_canonical(p.y)) return NOT_CANONICAL;
    if (is_zero(p.x) && is_zero(p.y)) return BAD_INFINITY;
    p = {to_montgomery(p.x), to_montgomery(p.y)};
    return NONE;
}
constexpr uint32_t TEST_COLUMNS = 8;
// Columns in shared memory for the subgroup test.
template <class F, uint32_t THREADS>
FN SubgroupTest<F, SharedColumn<F, THREADS>> subgroup_test_in_shared(Quad* shared) {
    const auto at = [&](uint32_t k) { return column<F, THREADS>(shared, k); };
    return {{at(0), at(1), at(2), at(3), at(4)}, at(5), at(6), at(7)};
}
// Returns the problem of *point, or converts it to Montgomery form.
template <uint32_t THREADS, class F>
FN PointProblem check_point(Affine<F>* point, uint32_t form, Quad* shared) {
    Affine<F> p = load_affine(point);
    const PointProblem problem = decode(p, form);
    if (problem != NONE) return problem;
    if (form != MONTGOMERY) store_affine(point, p);
    if (!on_curve(p)) return NOT_ON_CURVE;
    auto test = subgroup_test_in_shared<F, THREADS>(shared);
    return in_subgroup(test, [&] { return load_affine(point); }) ? NONE : NOT_IN_SUBGROUP;
}
template <uint32_t THREADS, class F>
FN void check_points(Affine<F>* points, unsigned long long* first_bad, uint64_t first_index,
                     uint32_t n, uint32_t form, Quad* shared) {
    const uint32_t threads = gridDim.x * THREADS;
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += threads) {
        const unsigned long long problem = check_point<THREADS>(points + i, form, shared);
        if (problem != NONE) atomicMin(first_bad, (first_index + i) << 8 | problem);
    }
}

KERNEL(128, 3)
g1_check_points(Affine<Fp>* points, unsigned long long* first_bad, uint64_t first_index,
                uint32_t n, uint32_t form) {
    SHARED(Quad, shared, 128 * TEST_COLUMNS * QUADS<Fp>);
    check_points<128>(points, first_bad, first_index, n, form, shared);
}
EXPORT_KERNEL(g1_check_points);

KERNEL(64, 4)
g2_check_points(Affine<Fp2>* points, unsigned long long* first_bad, uint64_t first_index,
                uint32_t n, uint32_t form) {
    SHARED(Quad, shared, 64 * TEST_COLUMNS * QUADS<Fp2>);
    check_points<64>(points, first_bad, first_index, n, form, shared);
}
EXPORT_KERNEL(g2_check_points);
