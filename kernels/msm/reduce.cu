// Bucket reduction to one point per set, then vector: sum of 2^(shift of set) sum of (b + 1) P_b.
//
// Launches; a plan (src/gpu/msm/reduce) uses those that pay off for its number of buckets:
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
// Slices of large sets cost two XYZZ additions per bucket, of ten products each, at the
// multiplier's full rate. Halving rows and columns by batched affine additions first needs fewer
// products but is 8 % slower for 2^21 buckets of G1 (benches/experiments/msm.md).
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
    name(Xyzz<F>* out, const Affine<F>* points, uint32_t set_count, uint32_t buckets, \
         uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts) { \
        DYNAMIC_SHARED(Quad, stage); \
        const BucketMatrix matrix = {set_count, buckets, lg_columns, row_parts, column_parts}; \
        sum_slices(out, sum<F, threads>(stage), points, matrix); \
    } \
    EXPORT_KERNEL(name);
SLICES(g1_reduce_slices, Fp, 128, 2, sum_in_registers)
SLICES(g2_reduce_slices, Fp2, 64, 4, sum_in_shared)

KERNEL(128, 2)
g1_reduce_slices_xyzz(Xyzz<Fp>* out, const Xyzz<Fp>* points, uint32_t set_count, uint32_t buckets,
                      uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts) {
    sum_slices_xyzz(out, points, {set_count, buckets, lg_columns, row_parts, column_parts});
}
EXPORT_KERNEL(g1_reduce_slices_xyzz);

// Points that may be affine or XYZZ, depending on the launch.
template <class F> struct AffineOrXyzz {
    const void* points;
    uint32_t affine;

    FN F at(uint32_t i) const {
        if (affine) return load_split(static_cast<const Affine<F>*>(points) + i);
        return load_split(static_cast<const Xyzz<F>*>(points) + i);
    }
};
// Sums the buckets if row_parts is 0, else the slices.
template <class F>
FN void sum_rows_columns(Xyzz<F>* out, const AffineOrXyzz<F>& points, const BucketMatrix& matrix,
                         uint32_t team_size, F* shared) {
    const Team team = Team::of(team_size);
    const BucketMatrix unsplit = matrix.unsplit();
    const bool used = team.output < unsplit.slices();
    const uint32_t at = used ? team.output : 0;
    const Slice slice = matrix.row_parts ? slices_of(matrix, at) : slice_of(unsplit, at);
    const F sum = team_sum(team, used ? slice.count : 0, shared,
                           [&](uint32_t k) { return points.at(slice.first + k * slice.stride); });
    if (used && team.member == 0) store_split(out + team.output, sum);
}
template <class F>
FN void sum_terms(Xyzz<F>* out, const AffineOrXyzz<F>& points, const BitTerms& terms,
                  uint32_t team_size, F* shared) {
    const Team team = Team::of(team_size);
    const bool used = team.output < terms.sums();
    const TermPart part = terms.at(used ? team.output : 0);
    const F sum = team_sum(team, used ? part.count : 0, shared, [&](uint32_t k) {
        const uint32_t element = with_bit(part.first + k, part.bit);
        return element < part.elements ? points.at(part.set_at + element) : zero<F>();
    });
    if (used && team.member == 0) store_split(out + team.output, sum);
}
template <class F>
FN void combine(Xyzz<F>* out, const Xyzz<F>* points, uint32_t sums, uint32_t count,
                uint32_t team_size, const PeriodicDoublings& periodic, F* shared) {
    const Team team = Team::of(team_size);
    const bool used = team.output < sums, leads = used && team.member == 0;
    const F sum = team_sum(team, used ? count : 0, shared, [&](uint32_t k) {
        return load_split(points + team.output * count + k);
    });
    const F times_power = doubled(sum, leads ? periodic.doublings(team.output) : 0);
    if (leads) store_split(out + team.output, times_power);
}

#define SUMS(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const void* points, uint32_t affine, uint32_t set_count, uint32_t buckets, \
         uint32_t lg_columns, uint32_t row_parts, uint32_t column_parts, uint32_t team) { \
        SHARED(F, shared, SUM_THREADS); \
        const BucketMatrix matrix = {set_count, buckets, lg_columns, row_parts, column_parts}; \
        sum_rows_columns(out, AffineOrXyzz<F>{points, affine}, matrix, team, shared); \
    } \
    EXPORT_KERNEL(name);
SUMS(g1_reduce_sums, Fp, 3)
SUMS(g2_reduce_sums, Fp2, 2)

#define TERMS(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const void* points, uint32_t affine, uint32_t set_count, uint32_t rows, \
         uint32_t columns, uint32_t columns_at, uint32_t lg_parts, uint32_t team) { \
        SHARED(F, shared, SUM_THREADS); \
        const BitTerms terms = {set_count, rows, columns, columns_at, lg_parts}; \
        sum_terms(out, AffineOrXyzz<F>{points, affine}, terms, team, shared); \
    } \
    EXPORT_KERNEL(name);
TERMS(g1_reduce_terms, Fp, 3)
TERMS(g2_reduce_terms, Fp2, 2)

#define COMBINE(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Xyzz<F>* out, const Xyzz<F>* points, uint32_t sums, uint32_t count, uint32_t team, \
         uint32_t period, uint32_t width, uint64_t narrow) { \
        SHARED(F, shared, SUM_THREADS); \
        combine(out, points, sums, count, team, {period, width, narrow}, shared); \
    } \
    EXPORT_KERNEL(name);
COMBINE(g1_reduce_combine, Fp, 3)
COMBINE(g2_reduce_combine, Fp2, 2)
