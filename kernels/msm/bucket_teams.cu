// Sums of whole buckets, in XYZZ form, for few references. Two launches:
//
//   gN_bucket_team_sums  SUM_GROUPS / `team` small buckets per block, then one cell per block
//   gN_bucket_team_join  `blocks`, at least cells / 32; joins buckets of several pieces
//
// out[b] = the sum of bucket b, for all `buckets`. parts: one point per cell, followed by one mark
// per cell; uninitialised. `parts` is point number `parts_index` in the numbering of the
// references. There are digits / `cell_references` cells, rounded down. `cell_references` is at
// most `large_min` and at most 16 `references_per_group` (bucket_teams.cuh).
// Launch: blocks of 128. Barriers: those of a team's tree.
#include "bucket_teams.cuh"

#define SUMS(name, F, fit) \
    KERNEL(SUM_THREADS, fit) \
    name(Xyzz<F>* out, Xyzz<F>* parts, const uint32_t* references, const uint32_t* starts, \
         uint32_t buckets, uint32_t parts_index, uint32_t team, uint32_t large_min, \
         uint32_t cell_references, uint32_t references_per_group, uint32_t cells) { \
        await_predecessor(); \
        SHARED(F, shared, SUM_THREADS); \
        const auto marks = reinterpret_cast<FirstPiece*>(parts + cells); \
        const auto base = reinterpret_cast<const Affine<F>*>(parts) - parts_index; \
        const BucketSplit split = {references, starts, buckets, large_min, cell_references, \
                                   references_per_group}; \
        sum_buckets_or_pieces(out, parts, marks, base, split, team, shared); \
    } \
    EXPORT_KERNEL(name);
SUMS(g1_bucket_team_sums, Fp, 3)
SUMS(g2_bucket_team_sums, Fp2, 2)

#define JOIN(name, F, fit) \
    KERNEL(SUM_THREADS, fit) \
    name(Xyzz<F>* out, const Xyzz<F>* parts, uint32_t cells, uint32_t blocks) { \
        await_predecessor(); \
        SHARED(F, shared, SUM_THREADS); \
        const auto marks = reinterpret_cast<const FirstPiece*>(parts + cells); \
        join_pieces(out, parts, marks, cells, blocks, shared); \
    } \
    EXPORT_KERNEL(name);
JOIN(g1_bucket_team_join, Fp, 3)
JOIN(g2_bucket_team_join, Fp2, 2)
