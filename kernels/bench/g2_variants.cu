// Candidates for sums of G2 in XYZZ, to be measured; arguments are those of g2_xyzz_256_1 in
// curve.cu. All take Fp2's product from ../field2_dot.cuh.
//   _a  that alone
//   _b  times_minus_times from there too, its four operands passed in registers
//   _c  the same, two of its operands read from their columns by the callee
//   _d  _c, and every product's first factor read from its column by the callee
// Launch and memory of these are g2_xyzz_256_1's: 768 bytes of shared memory a thread.
//   g2_xyzz_384_1_e  _b with 384 threads in 6 columns, 576 bytes a thread: the next point travels
//                    to the columns of r and q as soon as these are in registers
#define FP2_DOT
#include "../accumulate.cuh"

enum { X, Y, ZZ, ZZZ, R, Q, PX_APART, PY_APART };

template <uint32_t T> FN Column<Fp2, T> place(uint32_t k) {
    DYNAMIC_SHARED(Quad, stage);
    return column<Fp2, T>(stage, k);
}
RARE Fp2 fp2_mul_sub_mul(Fp2 a, Fp2 b, Fp2 c, Fp2 d) { return mul_sub_mul_dot(a, b, c, d); }
RARE Fp2 fp2_mul_sub_mul_placed(Fp2 b, Fp2 d) {
    return mul_sub_mul_dot(Fp2(place<256>(R)), b, Fp2(place<256>(Y)), d);
}
RARE Fp2 fp2_mul_placed(uint32_t k, Fp2 b) { return mul(Fp2(place<256>(k)), b); }

struct ByValue {
    static constexpr uint32_t T = 256, PX = PX_APART, PY = PY_APART;
    static FN Fp2 times_place(uint32_t k, const Fp2& b) { return times(Fp2(place<T>(k)), b); }
    // R b - Y d.
    template <class Done> static FN Fp2 last(const Fp2& b, const Fp2& d, Done) {
        return times_minus_times(Fp2(place<T>(R)), b, Fp2(place<T>(Y)), d);
    }
};
struct Fused : ByValue {
    template <class Done> static FN Fp2 last(const Fp2& b, const Fp2& d, Done) {
        return fp2_mul_sub_mul(place<T>(R), b, place<T>(Y), d);
    }
};
struct FusedPlaced : ByValue {
    template <class Done> static FN Fp2 last(const Fp2& b, const Fp2& d, Done) {
        return fp2_mul_sub_mul_placed(b, d);
    }
};
struct AllPlaced : FusedPlaced {
    static FN Fp2 times_place(uint32_t k, const Fp2& b) { return fp2_mul_placed(k, b); }
};
struct Six {
    static constexpr uint32_t T = 384, PX = Q, PY = R;
    static FN Fp2 times_place(uint32_t k, const Fp2& b) { return times(Fp2(place<T>(k)), b); }
    template <class Done> static FN Fp2 last(const Fp2& b, const Fp2& d, Done done) {
        const Fp2 r = place<T>(R), y = place<T>(Y);
        done();
        return fp2_mul_sub_mul(r, b, y, d);
    }
};
// As in ../curve/xyzz.cuh, with the products of Ops.
template <class Ops, class Done>
FN void chord_by(const Fp2& u, bool is_tangent, Done done) {
    const Fp2 uu = squared(u);
    place<Ops::T>(ZZ) = Ops::times_place(ZZ, uu);
    place<Ops::T>(Q) = Ops::times_place(X, uu);
    const Fp2 uuu = times(u, uu);
    place<Ops::T>(ZZZ) = Ops::times_place(ZZZ, uuu);
    const Fp2 term = blend(is_tangent ? 0 : ~0u, uuu, zero<Fp2>()), rr = squared(Fp2(place<Ops::T>(R)));
    const Fp2 q = place<Ops::T>(Q), wide = sub_lazy<6>(rr, add_lazy(add_lazy(q, q), term));
    const Fp2 x = reduce_once<2>(reduce_once<4>(wide));
    place<Ops::T>(X) = x;
    place<Ops::T>(Y) = Ops::last(sub_loose(q, x), uuu, done);
}
template <class Ops, class Done> FN void accumulate_by(uint32_t reference, Done done) {
    const Fp2 px = place<Ops::T>(Ops::PX);
    const auto y = [&] { return with_sign(Fp2(place<Ops::T>(Ops::PY)), reference); };
    const bool start = is_zero_loose(Fp2(place<Ops::T>(ZZ)));
    if (start || first_limb(px) == 0) {
        const Affine<Fp2> p = {px, y()};
        if (start || is_infinity(p)) {
            const Xyzz<Fp2> first = to_xyzz(p);
            if (start) {
                place<Ops::T>(X) = first.x, place<Ops::T>(Y) = first.y;
                place<Ops::T>(ZZ) = first.zz, place<Ops::T>(ZZZ) = first.zzz;
            }
            done();
            return;
        }
    }
    place<Ops::T>(R) = sub_loose(Ops::times_place(ZZZ, y()), Fp2(place<Ops::T>(Y)));
    Fp2 u = sub_loose(Ops::times_place(ZZ, px), Fp2(place<Ops::T>(X)));
    if (Ops::PX == PX_APART) done();
    bool is_tangent = false;
    if (is_zero_loose(u)) {
        Fp2 r = place<Ops::T>(R);
        is_tangent = tangent(u, r, Fp2(place<Ops::T>(X)), Fp2(place<Ops::T>(Y)));
        place<Ops::T>(R) = r;
    }
    chord_by<Ops>(u, is_tangent, done);
}
template <class Ops>
FN void sums(Xyzz<Fp2>* out, const Affine<Fp2>* table, const uint32_t* references,
             uint32_t buckets, uint32_t size) {
    const uint32_t threads = gridDim.x * blockDim.x;
    const auto travel = [&](uint32_t reference) {
        const Affine<Fp2>* const p = table + (reference & ~SIGN);
        place<Ops::T>(Ops::PX).fetch_from(&p->x);
        place<Ops::T>(Ops::PY).fetch_from(&p->y);
        copies_commit();
    };
    for (uint32_t b = blockIdx.x * blockDim.x + threadIdx.x; b < buckets; b += threads) {
        const uint32_t* const mine = references + uint64_t(b) * size;
        place<Ops::T>(ZZ) = zero<Fp2>();
        uint32_t now = mine[0], next = mine[size > 1 ? 1 : 0];
        travel(now);
#pragma unroll 1
        for (uint32_t k = 0; k < size; k++) {
            copies_wait<0>();
            accumulate_by<Ops>(now, [&] {
                now = next;
                if (k + 1 < size) travel(now);
                if (k + 2 < size) next = mine[k + 2];
            });
        }
        store(&out[b].x, Fp2(place<Ops::T>(X)));
        store(&out[b].y, Fp2(place<Ops::T>(Y)));
        store(&out[b].zz, Fp2(place<Ops::T>(ZZ)));
        store(&out[b].zzz, Fp2(place<Ops::T>(ZZZ)));
    }
}
#define XYZZ(name, Ops) \
    KERNEL(Ops::T, 1) \
    name(Xyzz<Fp2>* out, const Affine<Fp2>* table, const uint32_t* references, uint32_t buckets, \
         uint32_t size) { \
        sums<Ops>(out, table, references, buckets, size); \
    } \
    EXPORT_KERNEL(name);
XYZZ(g2_xyzz_256_1_a, ByValue)
XYZZ(g2_xyzz_256_1_b, Fused)
XYZZ(g2_xyzz_256_1_c, FusedPlaced)
XYZZ(g2_xyzz_256_1_d, AllPlaced)
XYZZ(g2_xyzz_384_1_e, Six)
