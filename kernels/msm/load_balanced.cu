// Load-balanced sums of what the levels of the tree leave, and the final buckets.
//
//   gN_balanced_share   at most `shares_max` threads. Sums each thread's share of the entries.
//   gN_balanced_teams   `team` groups of four lanes per bucket: sums what is left of each bucket,
//                       instead of shares, if levels->teams is set.
//   gN_balanced_join    four lanes per share: joins the shares of each bucket, if none has many.
//   gN_balanced_merge   if one has many: one block per 32 units of round `round`, run for rounds 0,
//                       1, 2 until a single unit is left. `from` and `to` are the indices, in
//                       heads, tails and units, of the first unit of this and the next round.
//   gN_balanced_copy    any grid. out[b] = the sum of bucket b if the tree has it, or infinity if
//                       it is empty (left unchanged if sums are added to held buckets).
//   gN_balanced_to_affine  any grid. out[b] = the sum of bucket b if the tail has it, affine.
//   gN_balanced_to_xyzz  any grid. Replaces both: out[b] = the sum of bucket b in XYZZ form.
//
// heads, tails, units: one for each unit of all rounds. Sums of the tail follow those of the tree:
// a bucket's sum has number (its first entry) / 2, which is unique, since each has at least two
// entries.
// Shared memory: share 96 bytes per thread, G2 576; merge and teams static; the others none.
// Launch: share in blocks of 128, two per multiprocessor, G2 64, up to four as shared memory
// allows; copy and to_xyzz 256; the others 128.
// Barriers: merge before and after groups read each other's sums; teams those of a team's tree.
#include "copy_buckets.cuh"
#include "merge_shares.cuh"
#include "xyzz_buckets.cuh"

// The tail's sums.
template <class F> FN Xyzz<F>* tail_sums_of(Affine<F>* sums, const TreeLevels* levels) {
    return reinterpret_cast<Xyzz<F>*>(sums + levels->first[levels->count + 1]);
}

#define SHARE(name, F, threads, blocks, sum) \
    KERNEL(threads, blocks) \
    name(Affine<F>* sums, Xyzz<F>* heads, Xyzz<F>* tails, UnitState* units, \
         const TreeLevels* levels, const Pair* list, uint32_t sums_index, uint32_t shares_max, \
         uint32_t share_min) { \
        await_predecessor(); \
        DYNAMIC_SHARED(Quad, stage); \
        if (levels->teams) return; \
        const uint32_t entries = levels->entries; \
        const PartialRuns<F> runs = {heads, tails, units}; \
        add_share(sum<F, threads>(stage), runs, tail_sums_of(sums, levels), sums - sums_index, \
                  list + levels->first[levels->count + 1], entries, \
                  shares_of(entries, shares_max, share_min)); \
    } \
    EXPORT_KERNEL(name);
SHARE(g1_balanced_share, Fp, 128, 2, sum_in_registers)
SHARE(g2_balanced_share, Fp2, 64, 4, sum_in_shared)

#define JOIN(name, F, blocks) \
    KERNEL(JOIN_THREADS, blocks) \
    name(Affine<F>* sums, Xyzz<F>* heads, Xyzz<F>* tails, UnitState* units, \
         const TreeLevels* levels, const Pair* list, uint32_t shares_max, uint32_t share_min) { \
        await_predecessor(); \
        const Shares shares = shares_of(levels->entries, shares_max, share_min); \
        if (levels->teams || !joins_at_once(*levels, shares)) return; \
        join_runs<F>({heads, tails, units}, tail_sums_of(sums, levels), \
                     list + levels->first[levels->count + 1], shares); \
    } \
    EXPORT_KERNEL(name);
JOIN(g1_balanced_join, Fp, 2)
JOIN(g2_balanced_join, Fp2, 2)

#define TEAMS(name, F, blocks) \
    KERNEL(SUM_THREADS, blocks) \
    name(Affine<F>* sums, const TreeLevels* levels, const uint32_t* rows, \
         const uint32_t* references, const uint32_t* starts, uint32_t buckets, uint32_t held, \
         uint32_t width, uint32_t tail_row, uint32_t sums_index, uint32_t team) { \
        await_predecessor(); \
        SHARED(F, shared, SUM_THREADS); \
        if (!levels->teams) return; \
        const BucketTree tree = {{references, starts, buckets, held}, levels, rows, width, \
                                 tail_row, sums_index}; \
        sum_remaining_elements(tail_sums_of(sums, levels), sums - sums_index, tree, team, shared); \
    } \
    EXPORT_KERNEL(name);
TEAMS(g1_balanced_teams, Fp, 2)
TEAMS(g2_balanced_teams, Fp2, 2)

template <class F>
FN void merge_round(F* shared, Affine<F>* sums, const PartialRuns<F>& runs,
                    const TreeLevels* levels, uint32_t from, uint32_t to, uint32_t round,
                    uint32_t shares_max, uint32_t share_min) {
    const Shares shares = shares_of(levels->entries, shares_max, share_min);
    if (levels->teams || joins_at_once(*levels, shares)) return;
    uint32_t count = shares.count;
    for (uint32_t i = 0; i < round; i++) count = (count + LANES - 1) / LANES;
    if (blockIdx.x * LANES >= count) return;
    const PartialRuns<F> below = {runs.heads + from, runs.tails + from, runs.units + from};
    const PartialRuns<F> above = {runs.heads + to, runs.tails + to, runs.units + to};
    merge_units(shared, below, above, tail_sums_of(sums, levels), count, blockIdx.x);
}
#define MERGE(name, F, blocks) \
    KERNEL(MERGE_THREADS, blocks) \
    name(Affine<F>* sums, Xyzz<F>* heads, Xyzz<F>* tails, UnitState* units, \
         const TreeLevels* levels, uint32_t from, uint32_t to, uint32_t round, \
         uint32_t shares_max, uint32_t share_min) { \
        await_predecessor(); \
        SHARED(F, shared, MERGE_THREADS); \
        merge_round<F>(shared, sums, {heads, tails, units}, levels, from, to, round, shares_max, \
                       share_min); \
    } \
    EXPORT_KERNEL(name);
MERGE(g1_balanced_merge, Fp, 3)
MERGE(g2_balanced_merge, Fp2, 2)

#define COPY(name, F) \
    KERNEL(COPY_THREADS, 4) \
    name(Affine<F>* out, const Affine<F>* sums, const TreeLevels* levels, const uint32_t* rows, \
         const uint32_t* references, const uint32_t* starts, uint32_t buckets, uint32_t held, \
         uint32_t width, uint32_t tail_row, uint32_t sums_index) { \
        await_predecessor(); \
        copy_buckets(out, sums - sums_index, \
                     {{references, starts, buckets, held}, levels, rows, width, tail_row, \
                      sums_index}); \
    } \
    EXPORT_KERNEL(name);
COPY(g1_balanced_copy, Fp)
COPY(g2_balanced_copy, Fp2)

#define TO_XYZZ(name, F, blocks) \
    KERNEL(COPY_THREADS, blocks) \
    name(Xyzz<F>* out, Affine<F>* sums, const TreeLevels* levels, const uint32_t* rows, \
         const uint32_t* references, const uint32_t* starts, uint32_t buckets, uint32_t held, \
         uint32_t width, uint32_t tail_row, uint32_t sums_index) { \
        await_predecessor(); \
        write_xyzz_buckets(out, sums - sums_index, tail_sums_of(sums, levels), \
                           {{references, starts, buckets, held}, levels, rows, width, tail_row, \
                        sums_index}); \
    } \
    EXPORT_KERNEL(name);
TO_XYZZ(g1_balanced_to_xyzz, Fp, 4)
TO_XYZZ(g2_balanced_to_xyzz, Fp2, 2)

// Which of the CHECKED_AT_ONCE buckets b, b + threads, ... are in the tail, one bit each.
constexpr uint32_t CHECKED_AT_ONCE = 8;
FN uint32_t tail_bits(const SortedBuckets& buckets, uint32_t run, uint32_t b, uint32_t threads) {
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t k = 0; k < CHECKED_AT_ONCE; k++, b += threads) {
        const uint32_t size = b < buckets.count ? buckets.size(b) : 0;
        bits |= uint32_t(tail_entries_of(size, run) > 0) << k;
    }
    return bits;
}
// A thread's buckets are thread, thread + threads, ... One inversion serves all the tail's sums
// among them: until then, x of such a bucket holds a prefix product of ZZZ.
template <class F>
FN void tail_to_affine(Affine<F>* out, Affine<F>* sums, const BucketTree& tree) {
    const uint32_t threads = gridDim.x * blockDim.x, run = tree.levels->count;
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t stride = threads * CHECKED_AT_ONCE;
    const Xyzz<F>* const tail_sums = tail_sums_of(sums, tree.levels);
    const auto final_of = [&](uint32_t b) { return &tail_sums[tree.tail()[b] / 2]; };
    F product = one<F>();
    bool any = false;
    uint32_t first = thread;
#pragma unroll 1
    for (; first < tree.buckets.count; first += stride) {
        uint32_t bits = tail_bits(tree.buckets, run, first, threads);
#pragma unroll 1
        for (; bits; bits &= bits - 1) {
            const uint32_t b = first + (LANES - 1 - leading_zeros(bits & (0 - bits))) * threads;
            const F zzz = load<F>(&final_of(b)->zzz);
            store(&out[b].x, product);
            if (!is_zero_loose(zzz)) product = times(product, zzz);
            any = true;
        }
    }
    if (!any) return;
    product = inverse(product);
#pragma unroll 1
    while (first > thread) {
        first -= stride;
        uint32_t bits = tail_bits(tree.buckets, run, first, threads);
#pragma unroll 1
        while (bits) {
            const uint32_t k = LANES - 1 - leading_zeros(bits), b = first + k * threads;
            bits ^= 1u << k;
            const Xyzz<F>* const sum = final_of(b);
            const F zzz = load<F>(&sum->zzz);
            if (is_zero_loose(zzz)) {
                store_affine(&out[b], infinity<F>());
                continue;
            }
            const F i = times(product, load<F>(&out[b].x));
            product = times(product, zzz);
            const F x = times(load<F>(&sum->x), squared(times(i, load<F>(&sum->zz))));
            store(&out[b].x, canonical(x));
            store(&out[b].y, times(load<F>(&sum->y), i));
        }
    }
}
#define TO_AFFINE(name, F, blocks) \
    KERNEL(128, blocks) \
    name(Affine<F>* out, Affine<F>* sums, const TreeLevels* levels, const uint32_t* rows, \
         const uint32_t* references, const uint32_t* starts, uint32_t buckets, uint32_t held, \
         uint32_t width, uint32_t tail_row, uint32_t sums_index) { \
        await_predecessor(); \
        tail_to_affine(out, sums, \
                       {{references, starts, buckets, held}, levels, rows, width, tail_row, \
                        sums_index}); \
    } \
    EXPORT_KERNEL(name);
TO_AFFINE(g1_balanced_to_affine, Fp, 3)
TO_AFFINE(g2_balanced_to_affine, Fp2, 2)
