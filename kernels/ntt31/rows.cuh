// A pass over rows of 2^S adjacent words: a whole transform, or the last (DIF) or first (DIT) of
// several passes. A tile has 2^(T - S) rows.
#pragma once
#include "layout.cuh"
#include "tile.cuh"

template <uint32_t S, uint32_t T, uint32_t E> struct Rows31 {
    using RowsTile = Tile31<S, 0, T, E>;
    static constexpr uint32_t LG_WORDS = E, LAST = RowsTile::LAST_DIGIT, K = RowsTile::D::LAST;
    static constexpr uint32_t POINTS = (1u << S) - 1;

    uint64_t first_row = uint64_t(blockIdx.x) << (T - S);
    uint32_t rows; // in the tile that exist

    explicit FN Rows31(uint64_t all_rows) {
        const uint64_t left = all_rows - first_row;
        rows = left < 1 << (T - S) ? uint32_t(left) : 1 << (T - S);
    }
    // Words in natural order, from the first digit's points.
    FN void load_natural(Words31<E>& x, const uint32_t* in, Layout31 layout) const {
        const uint32_t own = RowsTile::template number<0>(threadIdx.x, 0);
        const uint32_t row = own >> S, point = own & POINTS;
        const uint32_t* const from = in + (first_row + row) * layout.stride + point;
        if (is_whole(layout)) {
            each_point([&](uint32_t i, uint32_t offset) {
                x[i] = from[(offset >> S) * layout.stride + (offset & POINTS)];
            });
        } else {
            each_point([&](uint32_t i, uint32_t offset) {
                const bool exists = row + (offset >> S) < rows &&
                                    point + (offset & POINTS) < layout.length;
                x[i] = exists ? from[(offset >> S) * layout.stride + (offset & POINTS)] : 0;
            });
        }
    }
    FN void store_natural(const Words31<E>& x, uint32_t* out, Layout31 layout) const {
        const uint32_t own = RowsTile::template number<0>(threadIdx.x, 0);
        const uint32_t row = own >> S, point = own & POINTS;
        uint32_t* const to = out + (first_row + row) * layout.stride + point;
        if (is_whole(layout)) {
            each_point([&](uint32_t i, uint32_t offset) {
                to[(offset >> S) * layout.stride + (offset & POINTS)] = x[i];
            });
        } else {
            each_point([&](uint32_t i, uint32_t offset) {
                if (row + (offset >> S) < rows && point + (offset & POINTS) < layout.length)
                    to[(offset >> S) * layout.stride + (offset & POINTS)] = x[i];
            });
        }
    }
    FN void scale_points(Words31<E>& x, const Twiddle31* factors, const Prime31& f) const {
        const Twiddle31* const own = factors + (RowsTile::template number<0>(threadIdx.x, 0) & POINTS);
        each_point([&](uint32_t i, uint32_t offset) {
            x[i] = multiply(x[i], entry(own + (offset & POINTS)), f);
        });
    }
    // Words in bit-reversed order. A thread's are adjacent; a warp's go through its own part of the
    // tile, so that its lanes access adjacent memory 16 bytes at a time.
    FN void load_reversed(Words31<E>& x, uint32_t* tile, const uint32_t* in) const {
        __syncwarp();
        each_quad([&](uint32_t cell, uint32_t number) {
            const bool exists = number >> S < rows;
            const uint32_t* const from = in + (first_row << S) + number;
            *reinterpret_cast<Quad*>(tile + cell) =
                exists ? *reinterpret_cast<const Quad*>(from) : Quad{};
        });
        __syncwarp();
        RowsTile::template load<LAST>(x, tile);
    }
    FN void store_reversed(const Words31<E>& x, uint32_t* tile, uint32_t* out) const {
        RowsTile::template store<LAST>(x, tile);
        __syncwarp();
        each_quad([&](uint32_t cell, uint32_t number) {
            if (number >> S < rows)
                *reinterpret_cast<Quad*>(out + (first_row << S) + number) =
                    *reinterpret_cast<const Quad*>(tile + cell);
        });
    }
    FN void scale_frequencies(Words31<E>& x, const Twiddle31* factors, const Prime31& f) const {
#pragma unroll
        for (uint32_t g = 0; g < RowsTile::WORDS >> K; g++)
#pragma unroll
            for (uint32_t j = 0; j < 1 << K; j++) {
                const uint32_t n = threadIdx.x + g * RowsTile::THREADS;
                const uint32_t point = RowsTile::template number<LAST>(n, j) & POINTS;
                x[g << K | j] = multiply(x[g << K | j], entry(factors + point), f);
            }
    }

private:
    FN bool is_whole(Layout31 layout) const {
        return rows == 1 << (T - S) && layout.length == 1 << S;
    }
    template <class Use> static FN void each_point(Use use) {
        constexpr uint32_t K0 = RowsTile::D::bits(0);
#pragma unroll
        for (uint32_t g = 0; g < RowsTile::WORDS >> K0; g++)
#pragma unroll
            for (uint32_t j = 0; j < 1 << K0; j++)
                use(g << K0 | j, RowsTile::template number<0>(g * RowsTile::THREADS, j));
    }
    template <class Use> static FN void each_quad(Use use) {
        const uint32_t own = (threadIdx.x & ~31u) << K | (threadIdx.x & 31) << 2;
        const uint32_t own_place = RowsTile::place(own);
#pragma unroll
        for (uint32_t g = 0; g < RowsTile::WORDS >> K; g++)
#pragma unroll
            for (uint32_t q = 0; q < (1 << K) / 4; q++) {
                const uint32_t offset = (g * RowsTile::THREADS << K) + q * 128;
                use(RowsTile::cell(own_place, offset), own | offset);
            }
    }
};

// Natural order to bit-reversed. Factors may be null.
template <class Pass>
FN void rows_dif(uint32_t* tile, const uint32_t* in, Layout31 layout, uint32_t* out,
                 const Twiddle31* twiddles, const Twiddle31* natural_factors,
                 const Twiddle31* reversed_factors, uint64_t rows, const Prime31& f) {
    const Pass pass(rows);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_natural(x, in, layout);
    if (natural_factors) pass.scale_points(x, natural_factors, f);
    Pass::RowsTile::frequencies(x, tile, twiddles, f);
    if (reversed_factors) pass.scale_frequencies(x, reversed_factors, f);
    pass.store_reversed(x, tile, out);
}

// Bit-reversed order to natural.
template <class Pass>
FN void rows_dit(uint32_t* tile, const uint32_t* in, uint32_t* out, Layout31 layout,
                 const Twiddle31* twiddles, const Twiddle31* natural_factors,
                 const Twiddle31* reversed_factors, uint64_t rows, const Prime31& f) {
    const Pass pass(rows);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_reversed(x, tile, in);
    if (reversed_factors) pass.scale_frequencies(x, reversed_factors, f);
    Pass::RowsTile::points(x, tile, twiddles, f);
    if (natural_factors) pass.scale_points(x, natural_factors, f);
    pass.store_natural(x, out, layout);
}

// DIF of `in`, times `other` in bit-reversed order, or squared if that is null, then DIT; the result
// is divided by 2^32.
template <class Pass>
FN void rows_product(uint32_t* tile, const uint32_t* in, Layout31 in_layout, const uint32_t* other,
                     uint32_t* out, Layout31 out_layout, const Twiddle31* twiddles,
                     const Twiddle31* inverse_twiddles, const Twiddle31* natural_factors,
                     const Twiddle31* inverse_factors, uint64_t rows, const Prime31& f,
                     const Prime31& inverse) {
    const Pass pass(rows);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_natural(x, in, in_layout);
    if (natural_factors) pass.scale_points(x, natural_factors, f);
    Pass::RowsTile::frequencies(x, tile, twiddles, f);
    if (other) {
        Words31<Pass::LG_WORDS> y;
        pass.load_reversed(y, tile, other);
#pragma unroll
        for (uint32_t i = 0; i < Pass::RowsTile::WORDS; i++) x[i] = montgomery(y[i], x[i], f);
    } else {
#pragma unroll
        for (uint32_t i = 0; i < Pass::RowsTile::WORDS; i++) x[i] = montgomery(x[i], x[i], f);
    }
    Pass::RowsTile::points(x, tile, inverse_twiddles, inverse);
    if (inverse_factors) pass.scale_points(x, inverse_factors, inverse);
    pass.store_natural(x, out, out_layout);
}
