// The limbs of a tile of each part of an integer, up to the carry of one into the tile.
#pragma once
#include "carries.cuh"
#include "four_limbs.cuh"
#include "tile.cuh"

template <uint32_t PARTS> struct LimbsShared {
    static constexpr uint32_t WARPS = LIMB_THREADS / LANES;
    // What the last lane of each warp carries into the next warp.
    uint64_t carries[PARTS][WARPS];
    CarryMasks masks[PARTS][WARPS];
};

// Where the limbs of a row are stored.
struct LimbsOutput {
    uint32_t* limbs;
    uint32_t limb_count;
    uint8_t* flags;
};

// Adds what the quad below carries. Returns whether the sum exceeds four limbs.
FN bool add_carry_below(FourLimbs& x, uint64_t below) {
    x.w[0] = add_cc(x.w[0], uint32_t(below));
    x.w[1] = addc_cc(x.w[1], uint32_t(below >> 32));
    x.w[2] = addc_cc(x.w[2], 0);
    x.w[3] = addc_cc(x.w[3], 0);
    return addc(0, 0) != 0;
}

// A thread's limbs of all parts, at the same quad of each. `Source` has the quads of a part, and
// computes a quad of each part.
template <uint32_t PARTS> struct ThreadLimbs {
    using Shared = LimbsShared<PARTS>;

    FourLimbs parts[PARTS];
    uint32_t quad;
    // Whether it has limbs to store.
    bool has_limbs;

    template <class Source> FN void load(const Source& source, const RowTile& tile) {
        const uint32_t thread = threadIdx.x, quads = source.quads();
        const bool is_ghost = thread < GHOSTS, is_first = tile.index == 0;
        quad = tile.index * TILE_QUADS + thread - GHOSTS;
        // The last quad of a part carries into the first one of the next part.
        if (is_ghost && is_first) quad += quads;
        has_limbs = !is_ghost && quad < quads;
        UNROLL
        for (uint32_t part = 0; part < PARTS; part++) parts[part] = {};
        if (!has_limbs && thread != GHOSTS - 1) return;
        source.compute(parts, quad);
        if (is_ghost && is_first) {
            UNROLL
            for (uint32_t part = PARTS - 1; part > 0; part--) {
                parts[part].carry = parts[part - 1].carry;
            }
            parts[0].carry = 0;
        }
    }
    // Adds what each thread carries into the next one, and leaves the masks of all warps in shared
    // memory. Sets `own` to those of this warp.
    FN void carry_from_threads(Shared& shared, CarryMasks (&own)[PARTS]) {
        const uint32_t lane = lane_index(), warp = warp_index();
        UNROLL
        for (uint32_t part = 0; part < PARTS; part++) {
            if (lane == LANES - 1) shared.carries[part][warp] = parts[part].carry;
        }
        __syncthreads();
        UNROLL
        for (uint32_t part = 0; part < PARTS; part++) {
            uint64_t below = shuffle_up(parts[part].carry, 1);
            if (lane == 0) below = warp > 0 ? shared.carries[part][warp - 1] : 0;
            const bool overflows = add_carry_below(parts[part], below);
            own[part] = CarryMasks::of_lanes(has_limbs && overflows,
                                             !has_limbs || are_ones(parts[part].w));
            if (lane == 0) shared.masks[part][warp] = own[part];
        }
        __syncthreads();
    }
    // Adds the one that other threads of the block carry into this one, and sets the tile's flag.
    FN void settle(const Shared& shared, const CarryMasks& own, uint32_t part, uint8_t* flag) {
        const CarryMasks warps = masks_of_warps(shared.masks[part], Shared::WARPS);
        const bool into_warp = warps.carries_in(false) >> warp_index() & 1;
        if (own.carry_into_lane(into_warp)) add_one(parts[part].w);
        if (threadIdx.x == 0) {
            *flag =
                uint8_t((warps.carry_out(false) ? GENERATES : 0) | (warps.passes() ? PASSES : 0));
        }
    }
};

template <uint32_t PARTS, class Source>
FN void set_limbs(LimbsShared<PARTS>& shared, const Source& source, const RowTile& tile,
                  const LimbsOutput& output) {
    ThreadLimbs<PARTS> own;
    CarryMasks masks[PARTS];
    own.load(source, tile);
    own.carry_from_threads(shared, masks);
    UNROLL
    for (uint32_t part = 0; part < PARTS; part++) {
        own.settle(shared, masks[part], part, output.flags + part * tile.count + tile.index);
        if (own.has_limbs) {
            const uint64_t at = 4 * (uint64_t(part) * source.quads() + own.quad);
            store_quad(output.limbs, output.limb_count, at, own.parts[part].w);
        }
    }
}
