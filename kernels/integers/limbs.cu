// Limbs of integers: of products, from residues of their coefficients modulo three primes, and of
// sums. Limbs are 32 bits, the lowest first. All rows of a vector are computed at once. Three
// kernels follow each other:
//
// integers_limbs_N, for N parts (recombine.cuh): a thread has four adjacent coefficients of each
// part. It adds them into four limbs and a carry of at most 60 bits for the next thread. What then
// remains to be carried is at most one, and goes through a block by look-ahead (carries.cuh) over
// ballots. The first barrier lets warps see what other warps carry, the second one which of them
// generate a one or pass it on. Sets the limbs below limb_count as if no tile got a one from the
// tile below, and the flags of all tiles (tile.cuh). Limbs from limb_count on are dropped.
// `cyclic`, `negacyclic` and `limbs` are 16-byte aligned, `length` is at least 4 and a multiple of
// 4. Rows of `cyclic` are `length` words apart, rows of `negacyclic` twice as many, and rows of
// `limbs` row_stride, a multiple of 4. `flags` has one byte a tile, row by row: first the tiles of
// the first part.
// Launch: for each row tiles_of_part blocks of 512: ceil(length / (4 TILE_QUADS)). If N = 1,
// ceil(limb_count / (4 TILE_QUADS)) suffice.
//
// integers_sum: like integers_limbs_1, for a sum of multiples of integers (sums.cuh). Rows of a term
// are as many words apart as it has limbs. Pointers of missing terms are not read.
// Launch: for each row ceil(limb_count / (4 TILE_QUADS)) blocks of 512.
//
// integers_carries: a block for each row decides by look-ahead which of its tiles get a one, a bit
// each: the lowest tile in the lowest bit of the first of ceil(tiles / 32) words. A barrier follows
// the masks of all warps, another one their use.
// Launch: a block of 32 or of 1024 for each row.
//
// integers_add_carries: adds a one to the limbs of the tiles that get one. A warp does so for one
// tile after the other of its four: the lanes find the first quad that is not all ones, clear those
// before it, and add to it.
// Launch: for each row ceil(tiles / 32) blocks of 256.
//
// All support programmatic dependent launch.
#include "recombine.cuh"
#include "set_limbs.cuh"
#include "sums.cuh"

#define LIMBS_KERNEL(parts, blocks)                                                              \
    KERNEL(LIMB_THREADS, blocks)                                                                 \
    integers_limbs_##parts(const uint32_t* cyclic, const uint32_t* negacyclic, uint64_t stride,  \
                           uint32_t length, uint32_t* limbs, uint64_t row_stride,                \
                           uint32_t limb_count, uint8_t* flags, uint32_t tiles_of_part) {        \
        SHARED(LimbsShared<parts>, shared, 1);                                                   \
        await_predecessor();                                                                     \
        const auto tile = RowTile::of_block(tiles_of_part);                                      \
        const uint64_t row = tile.row, words = row * length;                                     \
        const uint32_t* const of_row = parts > 1 ? negacyclic + 2 * words : nullptr;             \
        const ProductLimbs<parts> product{{cyclic + words, of_row, stride, length}};             \
        set_limbs<parts>(shared[0], product, tile,                                               \
                         {limbs + row * row_stride, limb_count,                                  \
                          flags + row * parts * tiles_of_part});                                 \
    }                                                                                            \
    EXPORT_KERNEL(integers_limbs_##parts)
LIMBS_KERNEL(1, 3);
LIMBS_KERNEL(3, 2);

KERNEL(LIMB_THREADS, 3)
integers_sum(const uint32_t* v0, const uint32_t* v1, const uint32_t* v2, const uint32_t* v3,
             const uint32_t* v4, const uint32_t* v5, const uint32_t* v6, const uint32_t* v7,
             const SumTerms terms, uint32_t* limbs, uint64_t row_stride, uint32_t limb_count,
             uint8_t* flags) {
    SHARED(LimbsShared<1>, shared, 1);
    await_predecessor();
    constexpr uint32_t TILE_LIMBS = 4 * TILE_QUADS;
    const auto tile = RowTile::of_block((limb_count + TILE_LIMBS - 1) / TILE_LIMBS);
    const uint64_t row = tile.row;
    SumLimbs sum{{v0, v1, v2, v3, v4, v5, v6, v7}, terms, limb_count};
    UNROLL
    for (uint32_t term = 0; term < SUM_TERMS_MAX; term++)
        sum.rows[term] += row * terms.length[term];
    set_limbs<1>(shared[0], sum, tile,
                 {limbs + row * row_stride, limb_count, flags + row * tile.count});
}
EXPORT_KERNEL(integers_sum);

constexpr uint32_t SCAN_THREADS = 1024;

// Words with a bit for each tile.
FN uint32_t words_of(uint32_t tiles) { return (tiles + LANES - 1) / LANES; }

KERNEL(SCAN_THREADS, 1)
integers_carries(const uint8_t* flags, uint32_t tiles, uint32_t* carries) {
    SHARED(CarryMasks, masks, LANES);
    await_predecessor();
    const uint32_t lane = lane_index(), warp = warp_index(), warps_of_block = blockDim.x / LANES;
    flags += uint64_t(blockIdx.x) * tiles;
    carries += uint64_t(blockIdx.x) * words_of(tiles);
    bool carry = false;
    for (uint32_t base = 0; base < tiles; base += warps_of_block * LANES * LANES) {
        // Lane i keeps the masks of tiles 32 i to 32 i + 31 of the warp's 1024.
        CarryMasks own = CarryMasks::none();
        const uint32_t first = base + warp * LANES * LANES;
#pragma unroll 16
        for (uint32_t i = 0; i < LANES; i++) {
            const uint32_t tile = first + i * LANES + lane;
            const uint32_t flag = tile < tiles ? flags[tile] : PASSES;
            const auto adjacent = CarryMasks::of_lanes(flag & GENERATES, flag & PASSES);
            if (lane == i) own = adjacent;
        }
        const auto of_warp = CarryMasks::of_lanes(own.carry_out(false), own.passes());
        if (lane == 0) masks[warp] = of_warp;
        __syncthreads();
        const CarryMasks warps = masks_of_warps(masks, warps_of_block);
        const bool into_warp = warps.carries_in(carry) >> warp & 1;
        const bool into_lane = of_warp.carry_into_lane(into_warp);
        const uint32_t at = first + lane * LANES;
        if (at < tiles) carries[at / LANES] = own.carries_in(into_lane);
        carry = warps.carry_out(carry);
        __syncthreads();
    }
}
EXPORT_KERNEL(integers_carries);

// Adds one to the limbs of quads [first, end), by a warp.
FN void add_one_to_tile(uint32_t* limbs, uint32_t limb_count, uint32_t first, uint32_t end) {
    uint32_t stop = end;
#pragma unroll 4
    for (uint32_t quad = first + lane_index(); quad < end; quad += LANES) {
        const Quad limb = load_quad(limbs, limb_count, 4ull * quad);
        if (!are_ones(limb.w) && quad < stop) stop = quad;
    }
    UNROLL
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        const uint32_t other = shuffle_xor(stop, distance);
        stop = other < stop ? other : stop;
    }
    for (uint32_t quad = first + lane_index(); quad < end && quad <= stop; quad += LANES) {
        Quad limb = {};
        if (quad == stop) {
            limb = load_quad(limbs, limb_count, 4ull * quad);
            add_one(limb.w);
        }
        store_quad(limbs, limb_count, 4ull * quad, limb.w);
    }
}

constexpr uint32_t ADD_THREADS = 256, TILES_OF_WARP = LANES / (ADD_THREADS / LANES);

KERNEL(ADD_THREADS, 4)
integers_add_carries(const uint32_t* carries, uint32_t tiles_of_part, uint32_t length,
                     uint32_t parts, uint32_t* limbs, uint64_t row_stride, uint32_t limb_count) {
    await_predecessor();
    const uint32_t quads = length / 4, mask = carries[blockIdx.x];
    const uint32_t words = words_of(parts * tiles_of_part);
    const uint32_t row = blockIdx.x / words, word = blockIdx.x % words;
    limbs += row * row_stride;
    for (uint32_t i = 0; i < TILES_OF_WARP; i++) {
        const uint32_t bit = warp_index() * TILES_OF_WARP + i;
        if ((mask >> bit & 1) == 0) continue;
        const uint32_t tile = word * LANES + bit;
        const uint32_t part = tile / tiles_of_part, begin = part * quads;
        const uint32_t first = begin + tile % tiles_of_part * TILE_QUADS;
        const uint32_t end = first + TILE_QUADS;
        add_one_to_tile(limbs, limb_count, first, end < begin + quads ? end : begin + quads);
    }
}
EXPORT_KERNEL(integers_add_carries);
