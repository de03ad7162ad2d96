// From sorted references to the list of all additions of each level, without host synchronisation.
// Four launches per pass; D is the number of elements.
//
//   msm_levels_count   grid: tiles. totals[column tiles + tile] = the tile's sum of a column.
//   msm_levels_scan    grid: 1. Exclusive scan of each column of `totals`; sets *tree_levels.
//   msm_levels_rows    grid: tiles. Fills the rows of the levels that are run, and the tail's row.
//   msm_levels_list    any grid. Fills `list`: the pairs of all levels, then the tail's entries.
//
// A tile is TILE buckets; there are buckets / TILE + 1, so that one contains the end of the last
// bucket. With L = `levels`, columns 0 to L - 1 are the additions of levels 1 to L, columns L to 2L
// the entries of a tail after 0 to L levels, and column 2L + 1 the tile's largest bucket. A level
// is run if it and all before it have at least `additions_min` additions. If they leave at most
// `largest_max` elements of each bucket, teams sum these, and the list has no tail entries.
// starts: buckets + 1. rows: (L + 1) x width, width >= buckets + 1, a multiple of 4, 16-byte
// aligned. list: at most D.
// Shared memory: static. Barriers: those of block sums; in the scan one before its result is read.
#include "level_list.cuh"

constexpr uint32_t THREADS = 256, SCAN_THREADS = 1024;
constexpr uint32_t OWN = 8; // buckets per thread
constexpr uint32_t TILE = THREADS * OWN;
constexpr uint32_t COLUMNS_MAX = 2 * LEVELS_MAX + 2;
constexpr uint32_t SCAN_OWN = 4;
// Level-1 items per part of a group in msm_levels_list. Finding a part costs a warp as much as
// writing some 100 items. Figures were not kept.
constexpr uint32_t PART_MIN = 256, PART_MAX = 2048;
constexpr uint32_t LIST_BLOCKS = 5; // per multiprocessor: a group fits in 48 registers. Not tuned

static_assert(OWN % 4 == 0, "rows are written in pieces of four words");

FN uint32_t column_of(uint32_t size, uint32_t column, uint32_t levels) {
    return column < levels ? additions_of(size, column + 1)
                           : tail_entries_of(size, column - levels);
}

KERNEL(THREADS)
msm_levels_count(uint32_t* totals, const uint32_t* starts, uint32_t buckets, uint32_t held,
                 uint32_t levels) {
    await_predecessor();
    SHARED(uint32_t, sums, COLUMNS_MAX);
    const uint32_t largest = 2 * levels + 1, columns = largest + 1;
    if (threadIdx.x < columns) sums[threadIdx.x] = 0;
    const SortedBuckets all = {nullptr, starts, buckets, held};
    uint32_t sizes[OWN];
#pragma unroll
    for (uint32_t j = 0; j < OWN; j++) {
        const uint32_t b = blockIdx.x * TILE + j * THREADS + threadIdx.x;
        sizes[j] = b < buckets ? all.size(b) : 0;
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t column = 0; column < largest; column++) {
        uint32_t sum = 0;
#pragma unroll
        for (uint32_t j = 0; j < OWN; j++) sum += column_of(sizes[j], column, levels);
        sum = warp_reduce(sum, AddWords{});
        if (lane_index() == 0) atomicAdd(&sums[column], sum);
    }
    uint32_t most = 0;
#pragma unroll
    for (uint32_t j = 0; j < OWN; j++) most = MaxWords{}(most, sizes[j]);
    most = warp_reduce(most, MaxWords{});
    if (lane_index() == 0) atomicMax(&sums[largest], most);
    __syncthreads();
    if (threadIdx.x < columns) totals[threadIdx.x * gridDim.x + blockIdx.x] = sums[threadIdx.x];
}
EXPORT_KERNEL(msm_levels_count);

// Exclusive scan in place; returns the total. One warp.
FN uint32_t scan_column(uint32_t* values, uint32_t count) {
    uint32_t before = 0;
    for (uint32_t first = 0; first < count; first += LANES * SCAN_OWN) {
        uint32_t own[SCAN_OWN], sum = 0;
#pragma unroll
        for (uint32_t j = 0; j < SCAN_OWN; j++) {
            const uint32_t i = first + lane_index() * SCAN_OWN + j;
            own[j] = i < count ? values[i] : 0;
            sum += own[j];
        }
        const uint32_t upto = warp_scan(sum, AddWords{});
        uint32_t next = before + upto - sum;
#pragma unroll
        for (uint32_t j = 0; j < SCAN_OWN; j++) {
            const uint32_t i = first + lane_index() * SCAN_OWN + j;
            if (i < count) values[i] = next;
            next += own[j];
        }
        before += broadcast(upto, LANES - 1);
    }
    return before;
}
// The maximum. One warp.
FN uint32_t largest_of(const uint32_t* values, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t i = lane_index(); i < count; i += LANES) most = MaxWords{}(most, values[i]);
    return warp_reduce(most, MaxWords{});
}
KERNEL(SCAN_THREADS)
msm_levels_scan(TreeLevels* tree_levels, uint32_t* totals, uint32_t tiles, uint32_t levels,
                uint32_t additions_min, uint32_t largest_max) {
    await_predecessor();
    SHARED(uint32_t, sums, COLUMNS_MAX);
    const uint32_t largest = 2 * levels + 1;
    for (uint32_t column = warp_index(); column <= largest; column += SCAN_THREADS / LANES) {
        uint32_t* const values = totals + column * tiles;
        const uint32_t sum =
            column < largest ? scan_column(values, tiles) : largest_of(values, tiles);
        if (lane_index() == 0) sums[column] = sum;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    uint32_t run = 0, first = 0;
    while (run < levels && sums[run] >= additions_min) {
        run++;
        tree_levels->first[run] = first;
        first += sums[run - 1];
    }
    tree_levels->first[run + 1] = first;
    tree_levels->count = run;
    tree_levels->entries = sums[levels + run];
    tree_levels->largest = sums[largest];
    tree_levels->teams = remaining_of(sums[largest], run) <= largest_max;
}
EXPORT_KERNEL(msm_levels_scan);

KERNEL(THREADS)
msm_levels_rows(uint32_t* rows, const TreeLevels* tree_levels, const uint32_t* totals,
                 const uint32_t* starts, uint32_t buckets, uint32_t held, uint32_t width,
                 uint32_t levels) {
    await_predecessor();
    SHARED(uint32_t, partials, LANES);
    const uint32_t own = blockIdx.x * TILE + threadIdx.x * OWN, run = tree_levels->count;
    const uint32_t more = held != NO_HELD_SUMS;
    uint32_t sizes[OWN];
    uint32_t start = starts[own < buckets ? own : buckets];
#pragma unroll
    for (uint32_t j = 0; j < OWN; j++) {
        const uint32_t end = starts[own + j + 1 < buckets ? own + j + 1 : buckets];
        sizes[j] = end - start + (end > start ? more : 0);
        start = end;
    }
#pragma unroll 1
    for (uint32_t i = 0; i <= run; i++) {
        const bool tail = i == run;
        const uint32_t column = tail ? levels + run : i;
        uint32_t sum = 0, total;
#pragma unroll
        for (uint32_t j = 0; j < OWN; j++) sum += column_of(sizes[j], column, levels);
        uint32_t next = block_scan(sum, 0u, partials, total, AddWords{});
        next += totals[column * gridDim.x + blockIdx.x];
        uint32_t* const row = rows + uint64_t(tail ? levels : i) * width;
#pragma unroll
        for (uint32_t j = 0; j < OWN; j += 4) {
            Quad four;
#pragma unroll
            for (uint32_t k = 0; k < 4; k++) {
                four.w[k] = next;
                next += column_of(sizes[j + k], column, levels);
            }
            // Words after the end of the last bucket are unused.
            if (own + j < width) *reinterpret_cast<Quad*>(row + own + j) = four;
        }
        __syncthreads(); // partials may be reused
    }
}
EXPORT_KERNEL(msm_levels_rows);

KERNEL(THREADS, LIST_BLOCKS)
msm_levels_list(Pair* list, const TreeLevels* tree_levels, const uint32_t* rows,
                const uint32_t* references, const uint32_t* starts, uint32_t buckets, uint32_t held,
                uint32_t width, uint32_t levels, uint32_t sums) {
    await_predecessor();
    if (tree_levels->teams && tree_levels->count == 0) return;
    const LevelLister listing = {
        {{references, starts, buckets, held}, tree_levels, rows, width, levels, sums}, list};
    const uint32_t warps = gridDim.x * (THREADS / LANES);
    const uint32_t warp = blockIdx.x * (THREADS / LANES) + warp_index();
    const bool any = tree_levels->count > 0;
    const uint32_t* const row = listing.row(1);
    const uint32_t items = any ? tree_levels->additions(1) : tree_levels->entries;
    const uint32_t even = items / warps + 1, most = even < PART_MAX ? even : PART_MAX;
    const uint32_t size = most > PART_MIN ? most : PART_MIN;
    const uint32_t largest = any ? additions_of(tree_levels->largest, 1) : tree_levels->largest;
    const bool has_parts = uint64_t(largest) * LANES > 2 * size;
    const uint32_t groups = (buckets + LANES - 1) / LANES;
    const uint32_t turns = groups + (has_parts ? (items + size - 1) / size : 0);
    for (uint32_t turn = warp; turn < turns; turn += warps) {
        uint32_t group = turn;
        GroupPart part = {0, 1};
        // Then the large groups: one part per multiple of `size` inside.
        const bool again = turn >= groups;
        const uint32_t first = (turn - groups) * size;
        if (again) group = warp_bucket_containing(row, first, buckets) / LANES;
        const uint32_t own = listing.items_of(row, group);
        if ((own > 2 * size) != again) continue;
        if (again) {
            const uint32_t begin = row[group * LANES], number = (begin + size - 1) / size;
            part = {first / size - number, (begin + own + size - 1) / size - number};
        }
        listing.write(group, part);
    }
}
EXPORT_KERNEL(msm_levels_list);
