// XYZZ points split over four adjacent lanes: lane k has coordinate k of (x, y, zz, zzz).
//
// For few sums that depend on each other: four rounds of products, one per lane, instead of
// fourteen products in sequence. 16 lane-products instead of 14: if lanes are scarce, one lane per
// sum is better. Schoolbook products take 5 % fewer cycles in a warp that is alone, but 14 % more
// of the multiplier if two warps share it (benches/experiments/gpu-arithmetic.md).
#pragma once
#include "../memory.cuh"
#include "../warp.cuh"

constexpr uint32_t SPLIT_LANES = 4;

FN uint32_t coordinate_index() { return threadIdx.x % SPLIT_LANES; }

// The lane's coordinate of a point in memory.
template <class F> FN F load_split(const Xyzz<F>* from) {
    return load<F>(reinterpret_cast<const F*>(from) + coordinate_index());
}
template <class F> FN F load_split(const Affine<F>* from) {
    const Affine<F> p = load_affine(from);
    const uint32_t k = coordinate_index();
    if (is_infinity(p)) return zero<F>();
    return k == 0 ? p.x : k == 1 ? p.y : one<F>();
}
template <class F> FN void store_split(Xyzz<F>* to, const F& a) {
    store(reinterpret_cast<F*>(to) + coordinate_index(), a);
}

// The product of a round, not inlined over Fp either: with four inlined copies an addition takes
// half as long again, because a lone warp cannot hide instruction fetches
// (benches/experiments/gpu-arithmetic.md).
NOINLINE Fp split_times(Fp a, Fp b) { return times(a, b); }
FN Fp2 split_times(const Fp2& a, const Fp2& b) { return times(a, b); }

// The lane's coordinate of what replaces the chord when doubling: for equal points (u1, s1) over a
// common denominator, u = 2 s1 in even lanes and r = 3 u1^2 in odd ones. `crossed` is s1 in even
// lanes, u1 in odd ones.
template <class F> NOINLINE F split_tangent(F crossed, uint32_t even) {
    const F u = reduce_once<2>(add_lazy(crossed, crossed));
    return blend(even, u, triple(squared(crossed)));
}

// a + b; all lanes of the warp take part. Coordinates are loose. The formulas are those of add() in
// xyzz.cuh, distributed over the lanes:
//             lane 0      lane 1          lane 2      lane 3
//   round 1   u1          s1              u2          s2          (u1 = x1 zz2, s1 = y1 zzz2, ...)
//   d         u2 - u1     s2 - s1         u2 - u1     s2 - s1     (u and r of the chord)
//   round 2   u^2         r^2             zz1 zz2     zzz1 zzz2
//   round 3   u^3         q = u1 u^2      zz                      (times u^2)
//   round 4   s1 u^3      r (q - x)                   zzz         (x = r^2 - u^3 - 2 q)
// Not inlined: it is long, and callers use it several times.
template <class F> NOINLINE F split_add(F a, F b) {
    const uint32_t k = coordinate_index();
    const uint32_t even = 0 - uint32_t(k % 2 == 0), low = 0 - uint32_t(k < 2);
    const uint32_t zeros = uint32_t(is_zero_loose(a)) | uint32_t(is_zero_loose(b)) << 1;
    const uint32_t infinite = broadcast_in<SPLIT_LANES>(zeros, 2); // zz is 0

    const F mine = split_times(a, shuffle_xor(b, 2)), other = shuffle_xor(mine, 2);
    const F first = blend(low, mine, other); // u1, s1, u1, s1
    F d = sub_loose(blend(low, other, mine), first);
    const F crossed = shuffle_xor(first, 1); // s1, u1, s1, u1
    const uint32_t same = is_zero_loose(d);
    const uint32_t both = same & shuffle_xor(same, 1);
    if (both) d = split_tangent(crossed, even);

    const F second = split_times(blend(low, d, a), blend(low, d, b));
    const F uu = broadcast_in<SPLIT_LANES>(second, 0);
    const F third = split_times(blend(low, blend(even, d, crossed), second), uu);
    const F uuu = broadcast_in<SPLIT_LANES>(third, 0);
    // A tangent's x lacks the term u^3. Products are below 1.9p.
    const F term = blend(both ? 0 : ~0u, uuu, zero<F>());
    const F wide = sub_lazy<6>(second, add_lazy(add_lazy(third, third), term));
    const F x = reduce_once<2>(reduce_once<4>(wide)); // in lane 1
    const uint32_t one_only = even ? 0 : low;
    const F left = blend(low, blend(even, crossed, d), second);
    const F fourth = split_times(left, blend(one_only, sub_loose(third, x), uuu));
    const F got = shuffle_xor(blend(one_only, x, fourth), 1); // lane 0: x; lane 1: s1 u^3

    const F y = sub_loose(fourth, got);
    F sum = blend(even, blend(low, got, third), blend(low, y, fourth));
    if (infinite & 2) sum = a;
    if (infinite & 1) sum = b;
    return sum;
}
