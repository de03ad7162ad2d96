// Where the summands of a batch of additions come from.
//
// at(i) names the two summands of sum i; the other methods find their coordinates. A reference is
// an index with the sign of the point in its top bit.
#pragma once
#include "../memory.cuh"

constexpr uint32_t SIGN = 0x80000000u;

struct alignas(8) Pair {
    uint32_t first, second;
};

// a[i] + b[i]: arrays of points. b_stride 0 adds one point to all.
template <class F> struct Sequential {
    const Affine<F>*a, *b;
    uint32_t b_stride;

    FN Pair at(uint32_t i) const { return {i, i * b_stride}; }
    FN const void* first_x(const Pair& p) const { return &a[p.first].x; }
    FN const void* first_y(const Pair& p) const { return &a[p.first].y; }
    FN const void* second_x(const Pair& p) const { return &b[p.second].x; }
    FN const void* second_y(const Pair& p) const { return &b[p.second].y; }
    FN F first_signed(const F& y, const Pair&) const { return y; }
    FN F second_signed(const F& y, const Pair&) const { return y; }
};

// -y where the reference is negative: y loose, result <= 2p.
template <class F> FN F with_sign(const F& y, uint32_t reference) {
    return blend(uint32_t(int32_t(reference) >> 31), neg_lazy<2>(y), y);
}
// pairs[i] holds two references into a table whose x and y are each `stride` bytes apart. An array
// of points is x = table, y = table + sizeof(F), stride = 2 sizeof(F).
template <class F> struct Gathered {
    const char *x, *y;
    const Pair* pairs;
    uint32_t stride;

    FN uint64_t offset(uint32_t reference) const { return uint64_t(reference & ~SIGN) * stride; }
    FN Pair at(uint32_t i) const { return pairs[i]; }
    FN const void* first_x(const Pair& p) const { return x + offset(p.first); }
    FN const void* first_y(const Pair& p) const { return y + offset(p.first); }
    FN const void* second_x(const Pair& p) const { return x + offset(p.second); }
    FN const void* second_y(const Pair& p) const { return y + offset(p.second); }
    FN F first_signed(const F& y, const Pair& p) const { return with_sign(y, p.first); }
    FN F second_signed(const F& y, const Pair& p) const { return with_sign(y, p.second); }
};
