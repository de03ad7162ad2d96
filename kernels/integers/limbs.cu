// Limbs of a product of integers, from residues of its coefficients modulo three primes. Limbs are
// 32 bits, the lowest first. Three kernels follow each other:
//
// integers_limbs_N, for N parts (recombine.cuh): a thread has four adjacent coefficients of each
// part. It adds them into four limbs and a carry of at most 60 bits for the next thread. What then
// remains to be carried is at most one, and goes through a block by look-ahead (carries.cuh) over
// ballots. The first barrier lets warps see what other warps carry, the second one which of them
// generate a one or pass it on. Sets the limbs below limb_count as if no tile got a one from the
// tile below, and the flags of all tiles (tile.cuh). Limbs from limb_count on are dropped.
// `cyclic`, `negacyclic` and `limbs` are 16-byte aligned, `length` is at least 4. `flags` has one
// byte a tile: first those of the first part, one a block.
// Launch: ceil(length / (4 TILE_QUADS)) blocks of 512. If N = 1, ceil(limb_count / (4 TILE_QUADS))
// suffice.
//
// integers_carries: one block decides by look-ahead which tiles get a one, a bit each: the lowest
// tile in the lowest bit of the first of ceil(tiles / 32) words. A barrier follows the masks of all
// warps, another one their use.
// Launch: a block of 1024.
//
// integers_add_carries: adds a one to the limbs of the tiles that get one. A warp does so for one
// tile after the other of its four: the lanes find the first quad that is not all ones, clear those
// before it, and add to it.
// Launch: ceil(tiles / 32) blocks of 256.
//
// All support programmatic dependent launch.
#include "products.cuh"

#define LIMBS_KERNEL(parts, blocks)                                                              \
    KERNEL(LIMB_THREADS, blocks)                                                                 \
    integers_limbs_##parts(const uint32_t* cyclic, const uint32_t* negacyclic, uint64_t stride,  \
                           uint32_t length, uint32_t* limbs, uint32_t limb_count,                \
                           uint8_t* flags) {                                                     \
        SHARED(LimbsShared<parts>, shared, 1);                                                   \
        await_predecessor();                                                                     \
        product_limbs<parts>(shared[0], {cyclic, negacyclic, stride, length},                    \
                             {limbs, limb_count, flags});                                        \
    }                                                                                            \
    EXPORT_KERNEL(integers_limbs_##parts)
LIMBS_KERNEL(1, 3);
LIMBS_KERNEL(3, 2);

constexpr uint32_t SCAN_THREADS = 1024, SCAN_TILES = SCAN_THREADS * LANES;

KERNEL(SCAN_THREADS, 1)
integers_carries(const uint8_t* flags, uint32_t tiles, uint32_t* carries) {
    SHARED(CarryMasks, masks, LANES);
    await_predecessor();
    const uint32_t lane = lane_index(), warp = warp_index();
    bool carry = false;
    for (uint32_t base = 0; base < tiles; base += SCAN_TILES) {
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
        const CarryMasks warps = masks_of_warps(masks, LANES);
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
                     uint32_t* limbs, uint32_t limb_count) {
    await_predecessor();
    const uint32_t quads = length / 4, mask = carries[blockIdx.x];
    for (uint32_t i = 0; i < TILES_OF_WARP; i++) {
        const uint32_t bit = warp_index() * TILES_OF_WARP + i;
        if ((mask >> bit & 1) == 0) continue;
        const uint32_t tile = blockIdx.x * LANES + bit;
        const uint32_t part = tile / tiles_of_part, begin = part * quads;
        const uint32_t first = begin + tile % tiles_of_part * TILE_QUADS;
        const uint32_t end = first + TILE_QUADS;
        add_one_to_tile(limbs, limb_count, first, end < begin + quads ? end : begin + quads);
    }
}
EXPORT_KERNEL(integers_add_carries);
