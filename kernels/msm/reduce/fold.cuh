// One bit of each family summed over, by batched affine additions: for long arrays.
#pragma once
#include "../../batch_affine.cuh"
#include "halves.cuh"

template <class F> struct Folded {
    const Affine<F>* points;
    Halves work; // of one bit each

    FN Pair at(uint32_t i) const {
        const Slice slice = slice_of(work, i);
        return {slice.first, slice.first + slice.stride};
    }
    FN const void* first_x(const Pair& p) const { return &points[p.first].x; }
    FN const void* first_y(const Pair& p) const { return &points[p.first].y; }
    FN const void* second_x(const Pair& p) const { return &points[p.second].x; }
    FN const void* second_y(const Pair& p) const { return &points[p.second].y; }
    FN F first_signed(const F& y, const Pair&) const { return y; }
    FN F second_signed(const F& y, const Pair&) const { return y; }
};
