// Levels of the tree: batches of affine additions, one launch per level.
//
//   g1_tree_first   level 1, whose summands are gathered from tables: keeps both x in scratch.
//   gN_tree_level   any level, best a later one, whose summands are mostly adjacent.
//
// sums + first[l] + i = the sum of list[first[l] + i], for the level's additions; does nothing if
// the level is not run. `sums` is point number `sums_index` in the numbering of the references.
// Launch: blocks of 512 threads, G2 256, one per multiprocessor; shared memory of 5 elements per
// thread plus 2. Scratch, bytes: threads of the grid x chain x 48, G2 x 96, g1_tree_first x 144.
// See ../batch_affine.cuh.
#include "levels.cuh"
#include "../batch_affine.cuh"

template <class F, bool KEEP_X, uint32_t THREADS>
FN void add_level(Affine<F>* sums, Quad* scratch, Quad* stage, const TreeLevels* levels,
                  const Pair* list, uint32_t sums_index, uint32_t level, uint32_t chain) {
    if (level > levels->count) return;
    const uint32_t first = levels->first[level], n = levels->additions(level);
    const Summands<F> summands = {sums - sums_index, list + first};
    add_batched<F, KEEP_X, THREADS>(sums + first, scratch, stage, summands, n, chain);
}

#define LEVEL(name, F, threads, keep_x) \
    KERNEL(threads, 1) \
    name(Affine<F>* sums, Quad* scratch, const TreeLevels* levels, const Pair* list, \
         uint32_t sums_index, uint32_t level, uint32_t chain) { \
        DYNAMIC_SHARED(Quad, stage); \
        add_level<F, keep_x, threads>(sums, scratch, stage, levels, list, sums_index, level, \
                                      chain); \
    } \
    EXPORT_KERNEL(name);
LEVEL(g1_tree_first, Fp, 512, true)
LEVEL(g1_tree_level, Fp, 512, false)
LEVEL(g2_tree_level, Fp2, 256, false)
