// Sums of whole buckets, in XYZZ form, for few references. Two launches:
//
//   gN_bucket_team_sums  SUM_GROUPS / `team` small buckets per block, then one cell per block
//   gN_bucket_team_join  `blocks`, at least cells / 32; joins buckets of several pieces
//
// out[b] = the sum of bucket b, for all `buckets`. parts: one point per cell, followed by one mark
// per cell; uninitialised. `parts` is point number `parts_index` in the numbering of the
// references. There are digits / `cell` cells, rounded down; `cell` is at most `large` and at most
// 16 `each` (bucket_teams.cuh).
// Launch: blocks of 128. Barriers: those of a team's tree.
#include "bucket_teams.cuh"

#define SUMS(name, F, fit) \
    KERNEL(SUM_THREADS, fit) \
    name(Xyzz<F>* out, Xyzz<F>* parts, const uint32_t* references, const uint32_t* starts, \
         uint32_t buckets, uint32_t parts_index, uint32_t team, uint32_t large, uint32_t cell, \
         uint32_t each, uint32_t cells) { \
        await_predecessor(); \
        SHARED(F, shared, SUM_THREADS); \
        const auto marks = reinterpret_cast<Mark*>(parts + cells); \
        const auto base = reinterpret_cast<const Affine<F>*>(parts) - parts_index; \
        sum_whole(out, parts, marks, base, {references, starts, buckets, large, cell, each}, \
                  team, shared); \
    } \
    EXPORT_KERNEL(name);
SUMS(g1_bucket_team_sums, Fp, 3)
SUMS(g2_bucket_team_sums, Fp2, 2)

#define JOIN(name, F, fit) \
    KERNEL(SUM_THREADS, fit) \
    name(Xyzz<F>* out, const Xyzz<F>* parts, uint32_t cells, uint32_t blocks) { \
        await_predecessor(); \
        SHARED(F, shared, SUM_THREADS); \
        const auto marks = reinterpret_cast<const Mark*>(parts + cells); \
        join_pieces(out, parts, marks, cells, blocks, shared); \
    } \
    EXPORT_KERNEL(name);
JOIN(g1_bucket_team_join, Fp, 3)
JOIN(g2_bucket_team_join, Fp2, 2)
