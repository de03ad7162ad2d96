// The front of an MSM: sorts the digits of one or many vectors of n scalars by bucket.
//
//   msm_clear_bins     clears the counters of the coarse bins
//   msm_count_digits   counts the digits of all scalars by bin; the last block plans bins and tiles
//   msm_partition      recodes again (cheaper than storing digits) and writes digits bin by bin
//   msm_count_buckets  for bins of several tiles: where their buckets start
//   msm_sort_tiles_*   sorts every tile by bucket in shared memory and writes it in order
//
// For few digits per vector a single launch, after the first two if there are many vectors:
//
//   msm_sort_direct    counts digits and writes references in place, by independent blocks
//
// Bucket q = (vector * taken + set - first_set) * 2^(bits - 1) + |digit| - 1; for sliding windows
// vector * 2^(bits - 2) + |digit| / 2, for windows of a radix B vector * B / 2 + |digit| - 1
// (src/gpu/msm/windows). Bins are runs of 2^low_bits buckets of one vector (recode.cuh, bins.cuh).
// Scalars are split into tiles of `tile_scalars`, vector by vector; digits into tiles of 2^lg_tile,
// bin by bin. The distribution of the scalars does not matter: a bin that holds everything has many
// tiles. The order inside a bucket is arbitrary. D is the number of nonzero digits, Q the number of
// buckets.
//
//   scalars              [vectors * n]             canonical
//   state                words of SortBins for vectors * bins bins and D / 2^lg_tile tiles
//   histogram            [tiles of scalars * bins] digits of a tile in each bin of its vector
//   keys                 [D]  bucket within its bin, bin by bin
//   unsorted_references  [D]  references, bin by bin
//   bucket_cursors       [Q]  counts, then next places, of buckets in bins of several tiles
//   starts               [Q + 1], references [D]   the result
//
// All memory is written before it is read. All these kernels support programmatic dependent launch.
#include "../multiprocessor.cuh"
#include "bins.cuh"

constexpr uint32_t DIRECT_BUCKETS = 4096; // per block

FN uint32_t ceil_div(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// Launch: any grid and block; zeroes ticket, digits and finished.
KERNEL(1024) msm_clear_bins(uint32_t* state, uint32_t words) {
    await_predecessor();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words;
         i += gridDim.x * blockDim.x) {
        state[i] = 0;
    }
}
EXPORT_KERNEL(msm_clear_bins);

// A block processes one tile of scalars at a time, one scalar per thread. Shared: a counter for
// each bin of the vector.
// Barriers: between clearing, counting and reading the counters.
// Launch: blocks of up to 512 threads, any grid of at least 1.
KERNEL(512, 3)
msm_count_digits(const Scalar* scalars, uint32_t* state, uint16_t* histogram, uint32_t* starts,
               uint64_t shape, uint64_t narrow, uint32_t n, uint32_t vectors,
               uint32_t tile_scalars, uint32_t vector_bins, uint32_t lg_tile) {
    await_predecessor();
    SHARED(WindowTable, table, 1);
    SHARED(uint32_t, count, BINS_MAX);
    SHARED(BinTotals, partials, 32);
    SHARED(uint32_t, ticket, 1);
    const Recoding recoding = Recoding::of(shape, narrow);
    const uint32_t bucket_bits = recoding.bucket_bits();
    const SortBins bins = {state, vectors * vector_bins};
    const uint32_t tiles_each = ceil_div(n, tile_scalars);
    fill_windows(table, recoding);
    for (uint32_t tile = blockIdx.x; tile < vectors * tiles_each; tile += gridDim.x) {
        for (uint32_t b = threadIdx.x; b < vector_bins; b += blockDim.x) count[b] = 0;
        __syncthreads();
        const uint32_t vector = tile / tiles_each;
        const uint32_t first = (tile - vector * tiles_each) * tile_scalars;
        const uint32_t end = n - first < tile_scalars ? n : first + tile_scalars;
        for (uint32_t base = first; base < end; base += blockDim.x) {
            const uint32_t i = base + threadIdx.x;
            const auto each = [&](const Digit& digit, bool live) {
                count_key(count, digit.bucket(bucket_bits) >> recoding.low_bits, live);
            };
            for_each_digit(scalars + uint64_t(vector) * n + i, i < end, recoding, table, each);
        }
        __syncthreads();
        for (uint32_t b = threadIdx.x; b < vector_bins; b += blockDim.x) {
            const uint32_t digits = count[b];
            histogram[uint64_t(tile) * vector_bins + b] = uint16_t(digits);
            if (digits) atomicAdd(bins.digits() + vector * vector_bins + b, digits);
        }
        // No barrier: the thread that has read a counter also clears it.
    }
    if (!is_last_block(bins.ticket(), gridDim.x, ticket)) return;
    plan_bins(bins, starts, vectors * recoding.buckets(), lg_tile, partials, count);
}
EXPORT_KERNEL(msm_count_digits);

// A block processes one tile of scalars, one scalar per thread at a time. It orders the digits by
// bin in shared memory, so that adjacent threads write adjacent places: 4 bytes with bucket, table
// and sign, 2 with the scalar's number within the tile. Also zeroes `bucket_cursors`.
// Shared: place[bins], shift[bins], 6 bytes per digit, and the windows. Barriers: before places are
// allocated, and before the digits are read in order.
// Launch: one block per tile of scalars, up to 512 threads.
KERNEL(512, 3)
msm_partition(const Scalar* scalars, const uint16_t* histogram, uint32_t* state, uint16_t* keys,
              uint32_t* unsorted_references, uint32_t* bucket_cursors, uint64_t shape,
              uint64_t narrow, uint32_t n, uint32_t tile_scalars, uint32_t vector_bins,
              uint64_t bases) {
    await_predecessor();
    SHARED(WindowTable, table, 1);
    SHARED(uint32_t, partials, 32);
    DYNAMIC_SHARED(uint32_t, place);
    const Recoding recoding = Recoding::of(shape, narrow);
    const uint32_t low_bits = recoding.low_bits, bucket_bits = recoding.bucket_bits();
    const uint32_t tiles_each = ceil_div(n, tile_scalars), vectors = gridDim.x / tiles_each;
    const uint32_t vector = blockIdx.x / tiles_each;
    const uint32_t first = (blockIdx.x - vector * tiles_each) * tile_scalars;
    const uint32_t end = n - first < tile_scalars ? n : first + tile_scalars;
    const SortBins bins = {state, vectors * vector_bins};
    uint32_t* const cursor = bins.cursor() + vector * vector_bins;
    const uint16_t* const mine = histogram + uint64_t(blockIdx.x) * vector_bins;
    uint32_t *const shift = place + vector_bins, *const staged = shift + vector_bins;

    fill_windows(table, recoding);
    for (uint32_t q = blockIdx.x * blockDim.x + threadIdx.x; q < vectors * recoding.buckets();
         q += gridDim.x * blockDim.x) {
        bucket_cursors[q] = 0;
    }
    const uint32_t total = for_each_prefix_sum(
        vector_bins, 0u, partials, [&](uint32_t b) { return uint32_t(mine[b]); },
        [&](uint32_t b, uint32_t sum) { place[b] = shift[b] = sum; });
    uint16_t* const staged_scalar = reinterpret_cast<uint16_t*>(staged + total);
    __syncthreads();
    // Allocates space for the tile in every bin that it meets.
    reserve<4>(
        shift, cursor, vector_bins, [&](uint32_t b) { return uint32_t(mine[b]); },
        [&](uint32_t b) { return shift[b]; });
    for (uint32_t base = first; base < end; base += blockDim.x) {
        const uint32_t i = base + threadIdx.x;
        const auto each = [&](const Digit& digit, bool live) {
            const uint32_t to = take_place(place, digit.bucket(bucket_bits) >> low_bits, live);
            if (!live) return;
            staged[to] = digit.word | digit.sign;
            staged_scalar[to] = uint16_t(i - first);
        };
        for_each_digit(scalars + uint64_t(vector) * n + i, i < end, recoding, table, each);
    }
    __syncthreads();
    const uint32_t key_mask = (1u << low_bits) - 1;
#pragma unroll 4
    for (uint32_t s = threadIdx.x; s < total; s += blockDim.x) {
        const uint32_t word = staged[s], i = first + staged_scalar[s];
        const Digit digit = {word, word & NEGATIVE};
        const uint32_t to = shift[digit.bucket(bucket_bits) >> low_bits] + s;
        keys[to] = uint16_t(digit.word & key_mask);
        unsorted_references[to] = reference(digit, bucket_bits, i, bases);
    }
}
EXPORT_KERNEL(msm_partition);

// A block counts one tile of a bin that has several; the last block of a bin adds the counts up.
// Shared: a counter for each bucket of the bin. Launch: at least as many blocks as tiles, up to 512
// threads.
KERNEL(512, 2)
msm_count_buckets(const uint16_t* keys, uint32_t* state, uint32_t* bucket_cursors, uint32_t* starts,
                  uint64_t shape, uint32_t vectors, uint32_t vector_bins, uint32_t lg_tile) {
    await_predecessor();
    SHARED(uint32_t, count, LOW_MAX);
    SHARED(uint32_t, partials, 32);
    SHARED(uint32_t, ticket, 1);
    const Recoding recoding = Recoding::of(shape, 0);
    const SortBins bins = {state, vectors * vector_bins};
    CurrentTile tile;
    if (!find_tile(tile, bins, recoding, vector_bins, lg_tile) || tile.tiles == 1) return;
    for (uint32_t b = threadIdx.x; b < tile.buckets; b += blockDim.x) count[b] = 0;
    __syncthreads();
    constexpr int BATCH = 8; // loads in flight
#pragma unroll 1
    for (uint32_t s = tile.begin + threadIdx.x; s < tile.end; s += BATCH * blockDim.x) {
        uint32_t key[BATCH];
#pragma unroll
        for (int u = 0; u < BATCH; u++) {
            const uint32_t at = s + u * blockDim.x;
            key[u] = at < tile.end ? keys[at] : LOW_MAX;
        }
#pragma unroll
        for (int u = 0; u < BATCH; u++) count_key(count, key[u], key[u] < LOW_MAX);
    }
    __syncthreads();
    uint32_t* const place = bucket_cursors + tile.first_bucket;
    for (uint32_t b = threadIdx.x; b < tile.buckets; b += blockDim.x) {
        if (count[b]) atomicAdd(place + b, count[b]);
    }
    if (!is_last_block(bins.finished() + tile.bin, tile.tiles, ticket)) return;
    for (uint32_t b = threadIdx.x; b < tile.buckets; b += blockDim.x) {
        count[b] = load_volatile(place + b);
    }
    __syncthreads();
    const uint32_t start = bins.start()[tile.bin];
    for_each_prefix_sum(
        tile.buckets, 0u, partials, [&](uint32_t b) { return count[b]; },
        [&](uint32_t b, uint32_t sum) { starts[tile.first_bucket + b] = place[b] = start + sum; });
}
EXPORT_KERNEL(msm_count_buckets);

// A block sorts one tile: ranks its digits by counters, scans the counters, then orders the
// references by bucket in shared memory. For a bin of one tile this also computes where its buckets
// start. Each thread has THREAD_DIGITS of a tile's digits.
// Shared: references [tile], place[2^low_bits + 1], shift[2^low_bits], 32 words, keys [tile] of 2
// bytes. Barriers: between counting, scanning, staging and writing.
// Launch: at least as many blocks as tiles, THREADS threads.
template <uint32_t THREAD_DIGITS, uint32_t LG_THREADS>
FN void sort_tile(uint32_t* staged, const uint16_t* keys, const uint32_t* unsorted_references,
                  const uint32_t* state, uint32_t* bucket_cursors, uint32_t* starts,
                  uint32_t* references, uint64_t shape, uint32_t vectors, uint32_t vector_bins) {
    constexpr uint32_t THREADS = 1 << LG_THREADS, TILE = THREAD_DIGITS * THREADS;
    constexpr uint32_t LG_TILE = LG_THREADS + (THREAD_DIGITS == 16 ? 4 : 3);
    static_assert(TILE == 1 << LG_TILE, "tiles are counted by shifts");
    const Recoding recoding = Recoding::of(shape, 0);
    const SortBins bins = {const_cast<uint32_t*>(state), vectors * vector_bins};
    CurrentTile tile;
    if (!find_tile(tile, bins, recoding, vector_bins, LG_TILE)) return;
    uint32_t *const place = staged + TILE, *const shift = place + tile.buckets + 1;
    uint32_t* const partials = shift + tile.buckets;
    uint16_t* const staged_key = reinterpret_cast<uint16_t*>(partials + 32);
    const uint32_t size = tile.end - tile.begin;
    const bool alone = tile.tiles == 1;
    for (uint32_t b = threadIdx.x; b < tile.buckets; b += THREADS) place[b] = 0;
    uint32_t mine[THREAD_DIGITS]; // key, and above it the rank among equal keys
#pragma unroll
    for (uint32_t u = 0; u < THREAD_DIGITS; u++) {
        const uint32_t s = u * THREADS + threadIdx.x;
        mine[u] = s < size ? keys[tile.begin + s] : 0;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t u = 0; u < THREAD_DIGITS; u++) {
        if (u * THREADS >= size) continue;
        mine[u] |= take_place(place, mine[u], u * THREADS + threadIdx.x < size) << 16;
    }
    __syncthreads();
    for_each_prefix_sum(
        tile.buckets, 0u, partials, [&](uint32_t b) { return place[b]; },
        [&](uint32_t b, uint32_t sum) {
            place[b] = sum;
            if (alone) starts[tile.first_bucket + b] = tile.begin + sum;
        });
    if (threadIdx.x == 0) place[tile.buckets] = size;
    __syncthreads();
    if (!alone) {
        reserve<2>(
            shift, bucket_cursors + tile.first_bucket, tile.buckets,
            [&](uint32_t b) { return place[b + 1] - place[b]; },
            [&](uint32_t b) { return place[b]; });
    }
#pragma unroll
    for (uint32_t u = 0; u < THREAD_DIGITS; u++) {
        const uint32_t s = u * THREADS + threadIdx.x, key = mine[u] & 0xffff;
        if (s >= size) continue;
        const uint32_t to = place[key] + (mine[u] >> 16);
        staged[to] = unsorted_references[tile.begin + s];
        if (!alone) staged_key[to] = uint16_t(key);
    }
    __syncthreads();
    for (uint32_t s = threadIdx.x; s < size; s += THREADS) {
        const uint32_t to = alone ? tile.begin : shift[staged_key[s]];
        references[to + s] = staged[s];
    }
}

#define SORT_TILES(name, digits, lg_threads, blocks) \
    KERNEL(1 << lg_threads, blocks) \
    name(const uint16_t* keys, const uint32_t* unsorted_references, const uint32_t* state, \
         uint32_t* bucket_cursors, uint32_t* starts, uint32_t* references, uint64_t shape, \
         uint32_t vectors, uint32_t vector_bins) { \
        await_predecessor(); \
        DYNAMIC_SHARED(uint32_t, staged); \
        sort_tile<digits, lg_threads>(staged, keys, unsorted_references, state, bucket_cursors, \
                                      starts, references, shape, vectors, vector_bins); \
    } \
    EXPORT_KERNEL(name);
SORT_TILES(msm_sort_tiles_16k, 16, 10, MULTIPROCESSOR_THREADS / 1024)
SORT_TILES(msm_sort_tiles_8k, 8, 10, MULTIPROCESSOR_THREADS / 1024)
SORT_TILES(msm_sort_tiles_4k, 8, 9, 2)

// `groups` blocks per vector, each with an equal run of its buckets. A block reads all digits of
// its vector: those below its buckets determine where it starts, its own are counted and written.
// `state` has one bin per vector, as set by msm_count_digits; it is not read for a single vector.
// Shared: a counter for each bucket. Barriers: between counting, scanning and allocating places.
// Launch: vectors * groups blocks of up to 1024 threads; at most DIRECT_BUCKETS buckets per group.
KERNEL(1024)
msm_sort_direct(const Scalar* scalars, const uint32_t* state, uint32_t* starts,
                uint32_t* references, uint64_t shape, uint64_t narrow, uint32_t n,
                uint32_t groups, uint64_t bases) {
    await_predecessor();
    SHARED(WindowTable, table, 1);
    SHARED(uint32_t, place, DIRECT_BUCKETS);
    SHARED(uint32_t, partials, 32);
    const Recoding recoding = Recoding::of(shape, narrow);
    const uint32_t bucket_bits = recoding.bucket_bits();
    const uint32_t vectors = gridDim.x / groups, vector = blockIdx.x / groups;
    const uint32_t group = blockIdx.x - vector * groups, buckets = recoding.buckets();
    const uint32_t share = ceil_div(buckets, groups);
    const uint32_t begin = group * share < buckets ? group * share : buckets;
    const uint32_t size = buckets - begin < share ? buckets - begin : share;
    const Scalar* const own = scalars + uint64_t(vector) * n;
    for (uint32_t b = threadIdx.x; b < size; b += blockDim.x) place[b] = 0;
    fill_windows(table, recoding);
    uint32_t below = 0;
    for (uint32_t base = 0; base < n; base += blockDim.x) {
        const uint32_t i = base + threadIdx.x;
        for_each_digit(own + i, i < n, recoding, table, [&](const Digit& digit, bool live) {
            const uint32_t bucket = digit.bucket(bucket_bits);
            if (live && bucket < begin) below++;
            count_key(place, bucket - begin, live && bucket - begin < size);
        });
    }
    uint32_t all_below = 0;
    block_scan(below, 0u, partials, all_below, AddWords{});
    const SortBins bins = {const_cast<uint32_t*>(state), vectors};
    const uint32_t start = (vectors > 1 ? bins.start()[vector] : 0) + all_below;
    uint32_t* const own_starts = starts + vector * buckets + begin;
    __syncthreads();
    const uint32_t total = for_each_prefix_sum(
        size, 0u, partials, [&](uint32_t b) { return place[b]; },
        [&](uint32_t b, uint32_t sum) {
            place[b] = sum;
            own_starts[b] = start + sum;
        });
    const bool last = blockIdx.x == gridDim.x - 1;
    if (last && threadIdx.x == 0) starts[vectors * buckets] = start + total;
    __syncthreads();
    for (uint32_t base = 0; base < n; base += blockDim.x) {
        const uint32_t i = base + threadIdx.x;
        for_each_digit(own + i, i < n, recoding, table, [&](const Digit& digit, bool live) {
            const uint32_t bucket = digit.bucket(bucket_bits) - begin;
            const bool taken = live && bucket < size;
            const uint32_t to = take_place(place, bucket, taken);
            if (taken) references[start + to] = reference(digit, bucket_bits, i, bases);
        });
    }
}
EXPORT_KERNEL(msm_sort_direct);
