// Loads and stores of field elements in pieces of 16 bytes.
//
// A column holds one element per thread of a block or grid, piece by piece, so that adjacent
// threads access adjacent pieces: piece j of thread t is at [j * threads + t].
#pragma once
#include "curve.cuh"
#include "quad.cuh"

template <class F> struct ElementWidth; // in limbs
template <> struct ElementWidth<Fp> {
    static constexpr int LIMBS = 12;
};
template <> struct ElementWidth<Fp2> {
    static constexpr int LIMBS = 24;
};
template <class F> constexpr int QUADS = ElementWidth<F>::LIMBS / 4;

FN uint32_t& limb(Fp& a, int i) { return a.w[i]; }
FN uint32_t& limb(Fp2& a, int i) { return i < 12 ? a.c0.w[i] : a.c1.w[i - 12]; }
FN uint32_t limb(const Fp& a, int i) { return a.w[i]; }
FN uint32_t limb(const Fp2& a, int i) { return i < 12 ? a.c0.w[i] : a.c1.w[i - 12]; }

// `from` and `to` are 16-byte aligned; `stride` is in pieces.
template <class F> FN F load(const void* from, uint64_t stride = 1) {
    const Quad* const pieces = static_cast<const Quad*>(from);
    F a;
#pragma unroll
    for (int j = 0; j < QUADS<F>; j++) {
        const Quad piece = pieces[j * stride];
#pragma unroll
        for (int k = 0; k < 4; k++) limb(a, 4 * j + k) = piece.w[k];
    }
    return a;
}
template <class F> FN void store(void* to, const F& a, uint64_t stride = 1) {
    Quad* const pieces = static_cast<Quad*>(to);
#pragma unroll
    for (int j = 0; j < QUADS<F>; j++) {
        Quad piece;
#pragma unroll
        for (int k = 0; k < 4; k++) piece.w[k] = limb(a, 4 * j + k);
        pieces[j * stride] = piece;
    }
}
template <class F> FN Affine<F> load_affine(const Affine<F>* p) {
    return {load<F>(&p->x), load<F>(&p->y)};
}
template <class F> FN void store_affine(Affine<F>* to, const Affine<F>& p) {
    store(&to->x, p.x);
    store(&to->y, p.y);
}
// Copies an element from global memory into a column of shared memory, asynchronously.
template <class F>
FN void fetch(Quad* to, uint64_t to_stride, const void* from, uint64_t from_stride = 1) {
    const Quad* const pieces = static_cast<const Quad*>(from);
#pragma unroll
    for (int j = 0; j < QUADS<F>; j++) {
        copy16_async(to + j * to_stride, pieces + j * from_stride);
    }
}
// A thread's column of shared memory, used like an element. The block's size is a constant so that
// columns are offsets from one address, which saves registers.
template <class F, uint32_t THREADS> struct SharedColumn {
    Quad* at;

    FN operator F() const { return load<F>(at, THREADS); }
    FN void operator=(const F& a) const { store(at, a, THREADS); }
    FN void fetch_from(const void* from, uint64_t stride = 1) const {
        fetch<F>(at, THREADS, from, stride);
    }
};
// Column k of those that begin at `shared`.
template <class F, uint32_t THREADS> FN SharedColumn<F, THREADS> column(Quad* shared, uint32_t k) {
    return {shared + threadIdx.x + k * QUADS<F> * THREADS};
}
