// The shape of a tree of additions over buckets, in closed form.
//
// Level l = 1, 2, ... adds neighbours within each bucket. Of a bucket of m elements level l leaves
// ceil(m / 2^l): the sums of level l, in order, and where the number was odd the last element as it
// is. So nothing has to be kept of a bucket but how many additions each level makes before it: all
// else follows from its size. Whatever the sizes, the additions of a level are independent of each
// other and of equal cost: that is the load balance.
//
// The first levels are run as batches (tree.cu). What the last of them leaves in buckets of two
// elements or more goes to the tail (balanced.cu), which may be everything.
#pragma once
#include "../batch/source.cuh"

constexpr uint32_t LEVELS_MAX = 16;

// What was found out about the buckets as a whole. Sums and pairs of level l are numbers first[l]
// to first[l + 1] - 1; those of the tail begin at first[count + 1].
struct Levels {
    uint32_t count;                 // levels that are run
    uint32_t entries;               // elements that are left to the tail
    uint32_t first[LEVELS_MAX + 2]; // first[0] is not used
    uint32_t largest;               // elements of the largest bucket
    uint32_t teams;                 // not 0: teams sum what is left of buckets (balanced.cu)

    FN uint32_t additions(uint32_t level) const { return first[level + 1] - first[level]; }
};

// Elements that `level` leaves of `size`.
FN uint32_t left_of(uint32_t size, uint32_t level) {
    return (size + (1u << level) - 1) >> level;
}
// Additions of `level` in a bucket of `size`.
FN uint32_t additions_of(uint32_t size, uint32_t level) { return left_of(size, level - 1) / 2; }
// Elements that a bucket of `size` leaves to a tail after `levels` levels.
FN uint32_t entries_of(uint32_t size, uint32_t levels) {
    const uint32_t left = left_of(size, levels);
    return left > 1 ? left : 0;
}

constexpr uint32_t NOTHING_HELD = ~0u;

// Buckets of references, sorted: bucket b has references[starts[b]] to
// references[starts[b + 1] - 1]. Where buckets hold sums already, `held` is the index of bucket 0's
// as a point, and such a sum is one element more of every bucket that has any.
struct Buckets {
    const uint32_t *references, *starts;
    uint32_t count, held;

    FN bool adds_onto() const { return held != NOTHING_HELD; }
    FN uint32_t size(uint32_t b) const {
        const uint32_t own = starts[b + 1] - starts[b];
        return own + (own > 0 && adds_onto());
    }
};

// Where everything of the tree is. rows[(l - 1) width + b]: the additions of level l before bucket
// b, b <= buckets.count. The tail has a row of its own: the entries before bucket b.
struct Tree {
    Buckets buckets;
    const Levels* levels;
    const uint32_t* rows;
    uint32_t width;
    uint32_t tail_row; // number of the tail's row
    uint32_t sums;     // index of sum 0 as a point

    FN const uint32_t* row(uint32_t level) const { return rows + uint64_t(level - 1) * width; }
    FN const uint32_t* tail() const { return rows + uint64_t(tail_row) * width; }

    // The reference of element k of those that `level` leaves of bucket b, which has `size`.
    FN uint32_t element(uint32_t b, uint32_t size, uint32_t level, uint32_t k) const {
        for (; level > 0; level--) {
            const uint32_t before = left_of(size, level - 1);
            if (k < before / 2) return sums + levels->first[level] + row(level)[b] + k;
            k = before - 1; // had no partner
        }
        const uint32_t at = buckets.starts[b] + k;
        return at < buckets.starts[b + 1] ? buckets.references[at] : buckets.held + b;
    }
};
