// Carry look-ahead. A segment of an integer's limbs may generate a carry of one, or pass one on if
// all of its bits are ones. The carries between 32 adjacent segments are those of an addition of
// two words.
#pragma once
#include "../warp.cuh"

// A bit for each of 32 segments, the lowest segment in the lowest bit.
struct CarryMasks {
    uint32_t generate, pass;

    // The segments of all lanes.
    static FN CarryMasks of_lanes(bool generates, bool passes) {
        return {__ballot_sync(ALL_LANES, generates), __ballot_sync(ALL_LANES, passes)};
    }
    // Segments that do not exist.
    static FN CarryMasks none() { return {0, ALL_LANES}; }

    FN bool passes() const { return pass == ALL_LANES; }
    FN bool carry_out(bool carry_in) const {
        return (uint64_t(generate | pass) + generate + carry_in) >> 32 != 0;
    }
    // The segments that get a carry.
    FN uint32_t carries_in(bool carry_in) const {
        const uint32_t either = generate | pass;
        return (either + generate + carry_in) ^ either ^ generate;
    }
    // Whether the segment of this lane gets a carry.
    FN bool carry_into_lane(bool carry_in) const {
        return carries_in(carry_in) >> lane_index() & 1;
    }
};

// The masks of `count` warps, one bit a warp. Call with all lanes of a warp.
FN CarryMasks masks_of_warps(const CarryMasks* masks, uint32_t count) {
    const CarryMasks own = lane_index() < count ? masks[lane_index()] : CarryMasks::none();
    return CarryMasks::of_lanes(own.carry_out(false), own.passes());
}
