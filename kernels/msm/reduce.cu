// Bucket reduction to one point per set, then vector: sum of 2^(shift of set) sum of (b + 1) P_b.
//
// Launches; a plan (src/msm/reduce) uses those that pay off for its number of buckets:
//   gN_reduce_slices   slices of rows and columns, one thread each, into XYZZ;
//                      g1_reduce_slices_xyzz for XYZZ points
//   gN_reduce_sums     sums of rows and columns, by teams of split lanes
//   gN_reduce_terms    lg_buckets + 1 sums per set, each over the elements with one bit set
//   gN_reduce_combine  sums of `count` consecutive points, each doubled by its place in its period
// See reduce/rows_columns.cuh for rows and columns, reduce/bit_terms.cuh for terms.
//
// Sets have any number of buckets; nothing beyond a set's end is read.
//
// Input points are affine (`affine` not 0) or XYZZ, results XYZZ. y of affine points is loose;
// infinity is x = y = 0 mod p, may occur anywhere, and costs no more than other points.
//
// Slices of long arrays cost two XYZZ additions per bucket, of ten products each, at the
// multiplier's full rate. Halving rows and columns by batched affine additions first needs fewer
// products but is no faster on an H200: 1.67 instead of 1.55 ms for 2^21 buckets of G1.
//
// Launch. slices: blocks of 128 (G1) and 64 (G2), one thread per slice, dynamic shared memory of 2
// and 6 elements per thread: 12 and 36 KiB, within the 48 KiB per block of any device. The others:
// blocks of SUM_THREADS, static shared memory of one element per thread, `team` groups of four
// lanes per sum: team * sums / SUM_GROUPS blocks. Barriers: after each level of a team's tree, in
// all threads of a block.
#include "reduce/slices.cuh"
#include "reduce/bit_terms.cuh"

#define SLICES(name, F, threads, blocks, sum) \
    KERNEL(threads, blocks) \
    name(Xyzz<F>* out, const Affine<F>* points, uint32_t arrays, uint32_t buckets, \
         uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts) { \
        DYNAMIC_SHARED(Quad, stage); \
        const Halves work = {arrays, buckets, lg_columns, row_parts, column_parts}; \
        sum_slices(out, sum<F, threads>(stage), points, work); \
    } \
    EXPORT_KERNEL(name);
SLICES(g1_reduce_slices, Fp, 128, 2, sum_in_registers)
SLICES(g2_reduce_slices, Fp2, 64, 4, sum_in_shared)

KERNEL(128, 2)
g1_reduce_slices_xyzz(Xyzz<Fp>* out, const Xyzz<Fp>* points, uint32_t arrays, uint32_t buckets,
                      uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts) {
    sum_slices_xyzz(out, points, {arrays, buckets, lg_columns, row_parts, column_parts});
}
EXPORT_KERNEL(g1_reduce_slices_xyzz);

// Points that may be affine or XYZZ, depending on the launch.
template <class F> struct Either {
    const void* points;
    uint32_t affine;

    FN F at(uint32_t i) const {
        if (affine) return load_split(static_cast<const Affine<F>*>(points) + i);
        return load_split(static_cast<const Xyzz<F>*>(points) + i);
    }
};
// Sums the buckets if row_parts is 0, else the slices.
template <class F>
FN void sum_halves(Xyzz<F>* out, const Either<F>& points, const Halves& work, uint32_t team_size,
                   F* shared) {
    const Team team = Team::of(team_size);
    const Halves whole = work.whole();
    const bool used = team.output < whole.slices();
    const uint32_t at = used ? team.output : 0;
    const Slice slice = work.row_parts ? slices_of(work, at) : slice_of(whole, at);
    const F sum = team_sum(team, used ? slice.count : 0, shared,
                           [&](uint32_t k) { return points.at(slice.first + k * slice.stride); });
    if (used && team.member == 0) store_split(out + team.output, sum);
}
template <class F>
FN void sum_terms(Xyzz<F>* out, const Either<F>& points, const Terms& terms, uint32_t team_size,
                  F* shared) {
    const Team team = Team::of(team_size);
    const bool used = team.output < terms.sums();
    const Marginal marginal = terms.at(used ? team.output : 0);
    const F sum = team_sum(team, used ? marginal.count : 0, shared, [&](uint32_t k) {
        const uint32_t element = with_bit(marginal.first + k, marginal.bit);
        return element < marginal.elements ? points.at(marginal.array_at + element) : zero<F>();
    });
    if (used && team.member == 0) store_split(out + team.output, sum);
}
template <class F>
FN void collect(Xyzz<F>* out, const Xyzz<F>* points, uint32_t sums, uint32_t count,
                uint32_t team_size, const Ladder& ladder, F* shared) {
    const Team team = Team::of(team_size);
    const bool used = team.output < sums, leads = used && team.member == 0;
    const F sum = team_sum(team, used ? count : 0, shared, [&](uint32_t k) {
        return load_split(points + team.output * count + k);
    });
    const F times_power = doubled(sum, leads ? ladder.doublings(team.output) : 0);
    if (leads) store_split(out + team.output, times_power);
}

#define SUMS(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const void* points, uint32_t affine, uint32_t arrays, uint32_t buckets, \
         uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts, uint32_t team) { \
        SHARED(F, shared, SUM_THREADS); \
        const Halves work = {arrays, buckets, lg_columns, row_parts, column_parts}; \
        sum_halves(out, Either<F>{points, affine}, work, team, shared); \
    } \
    EXPORT_KERNEL(name);
SUMS(g1_reduce_sums, Fp, 3)
SUMS(g2_reduce_sums, Fp2, 2)

#define TERMS(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const void* points, uint32_t affine, uint32_t arrays, uint32_t rows, \
         uint32_t columns, uint32_t columns_at, uint32_t lg_parts, uint32_t team) { \
        SHARED(F, shared, SUM_THREADS); \
        const Terms terms = {arrays, rows, columns, columns_at, lg_parts}; \
        sum_terms(out, Either<F>{points, affine}, terms, team, shared); \
    } \
    EXPORT_KERNEL(name);
TERMS(g1_reduce_terms, Fp, 3)
TERMS(g2_reduce_terms, Fp2, 2)

#define COLLECT(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const Xyzz<F>* points, uint32_t sums, uint32_t count, uint32_t team, \
         uint32_t period, uint32_t width, uint64_t narrow) { \
        SHARED(F, shared, SUM_THREADS); \
        collect(out, points, sums, count, team, {period, width, narrow}, shared); \
    } \
    EXPORT_KERNEL(name);
COLLECT(g1_reduce_combine, Fp, 3)
COLLECT(g2_reduce_combine, Fp2, 2)
