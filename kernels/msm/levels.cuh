// The shape of a tree of additions over buckets, in closed form.
//
// Level l = 1, 2, ... adds adjacent elements within each bucket. Of m elements, ceil(m / 2^l)
// remain after level l: the sums of level l, in order, and an unpaired last element unchanged. So
// for each bucket only the number of earlier additions per level is stored; the rest follows from
// its size. The additions of a level are independent and of equal cost for any bucket sizes, which
// balances the load.
//
// The first levels run as batches (tree.cu). Buckets of two or more elements after the last of them
// go to the tail (load_balanced.cu), which may be everything.
#pragma once
#include "../batch/summands.cuh"

constexpr uint32_t LEVELS_MAX = 16;

// Totals over all buckets. Sums and pairs of level l have numbers first[l] to first[l + 1] - 1;
// those of the tail begin at first[count + 1].
struct TreeLevels {
    uint32_t count;                 // number of levels that are run
    uint32_t entries;               // elements left for the tail
    uint32_t first[LEVELS_MAX + 2]; // first[0] is unused
    uint32_t largest;               // elements of the largest bucket
    uint32_t teams;                 // if not 0, teams sum the rest (load_balanced.cu)

    FN uint32_t additions(uint32_t level) const { return first[level + 1] - first[level]; }
};

// Elements that remain of `size` after `level`.
FN uint32_t remaining_of(uint32_t size, uint32_t level) {
    return (size + (1u << level) - 1) >> level;
}
// Additions of `level` in a bucket of `size`.
FN uint32_t additions_of(uint32_t size, uint32_t level) {
    return remaining_of(size, level - 1) / 2;
}
// Elements of a bucket of `size` that go to the tail after `levels` levels.
FN uint32_t tail_entries_of(uint32_t size, uint32_t levels) {
    const uint32_t left = remaining_of(size, levels);
    return left > 1 ? left : 0;
}

constexpr uint32_t NO_HELD_SUMS = ~0u;

// References sorted by bucket: bucket b has references[starts[b]] to references[starts[b + 1] - 1].
// If buckets already hold sums, `held` is the point index of bucket 0's sum, and that sum is one
// more element of every nonempty bucket.
struct SortedBuckets {
    const uint32_t *references, *starts;
    uint32_t count, held;

    FN bool adds_onto() const { return held != NO_HELD_SUMS; }
    FN uint32_t size(uint32_t b) const {
        const uint32_t own = starts[b + 1] - starts[b];
        return own + (own > 0 && adds_onto());
    }
};

// The tree's data. rows[(l - 1) width + b]: additions of level l in buckets before b, b <=
// buckets.count. The tail has its own row: the entries in buckets before b.
struct BucketTree {
    SortedBuckets buckets;
    const TreeLevels* levels;
    const uint32_t* rows;
    uint32_t width;
    uint32_t tail_row; // index of the tail's row
    uint32_t sums;     // point index of sum 0

    FN const uint32_t* row(uint32_t level) const { return rows + uint64_t(level - 1) * width; }
    FN const uint32_t* tail() const { return rows + uint64_t(tail_row) * width; }

    // The reference of element k of bucket b, which has `size`, after `level`.
    FN uint32_t element(uint32_t b, uint32_t size, uint32_t level, uint32_t k) const {
        for (; level > 0; level--) {
            const uint32_t before = remaining_of(size, level - 1);
            if (k < before / 2) return sums + levels->first[level] + row(level)[b] + k;
            k = before - 1; // unpaired
        }
        const uint32_t at = buckets.starts[b] + k;
        return at < buckets.starts[b + 1] ? buckets.references[at] : buckets.held + b;
    }
};
