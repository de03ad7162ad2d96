// A pass over columns: blocks of 2^lg_block adjacent words are matrices of 2^S rows, whose columns
// are transformed and multiplied by powers of the block's root, w^(column * frequency). A tile is
// 2^C adjacent columns, its lanes.
#pragma once
#include "layout.cuh"
#include "powers.cuh"

template <uint32_t S, uint32_t C, uint32_t E> struct Columns31 {
    using ColumnsTile = Tile31<S, C, S + C, E>;
    static constexpr uint32_t LG_WORDS = E;

    uint64_t block;
    uint32_t lg_columns, first_column;

    explicit FN Columns31(uint32_t lg_block) {
        const uint32_t lg_tiles = lg_block - S - C;
        block = blockIdx.x >> lg_tiles;
        lg_columns = lg_block - S;
        first_column = (blockIdx.x & ((1u << lg_tiles) - 1)) << C;
    }
    // Calls `use` for each word of the thread in digit I: with its index in registers, and with its
    // distance in memory from the thread's first word.
    template <uint32_t I, class Use> FN void each(Use use) const {
        constexpr uint32_t K = ColumnsTile::D::bits(I);
#pragma unroll
        for (uint32_t g = 0; g < ColumnsTile::WORDS >> K; g++)
#pragma unroll
            for (uint32_t j = 0; j < 1 << K; j++)
                use(g << K | j,
                    uint64_t(ColumnsTile::template number<I>(g * ColumnsTile::THREADS, j) >> C) << lg_columns);
    }
    // Where the thread's first word of digit I is in the block.
    template <uint32_t I> FN uint32_t first() const {
        const uint32_t number = ColumnsTile::template number<I>(threadIdx.x, 0);
        return (number >> C << lg_columns) + first_column + (number & (ColumnsTile::LANES - 1));
    }
    template <uint32_t I> FN void load(Words31<E>& x, const uint32_t* in) const {
        in += first<I>();
        each<I>([&](uint32_t i, uint64_t offset) { x[i] = in[offset]; });
    }
    template <uint32_t I> FN void store(const Words31<E>& x, uint32_t* out) const {
        out += first<I>();
        each<I>([&](uint32_t i, uint64_t offset) { out[offset] = x[i]; });
    }
    FN void load_reversed(Words31<E>& x, const uint32_t* in) const {
        load<ColumnsTile::LAST_DIGIT>(x, in);
    }
    FN void store_reversed(const Words31<E>& x, uint32_t* out) const {
        store<ColumnsTile::LAST_DIGIT>(x, out);
    }
    FN void load_natural(Words31<E>& x, const uint32_t* in, Layout31 layout) const {
        in += block * layout.stride;
        if (is_whole(layout)) return load<0>(x, in);
        const uint32_t own = first<0>();
        each<0>([&](uint32_t i, uint32_t offset) {
            x[i] = own + offset < layout.length ? in[own + offset] : 0;
        });
    }
    FN void store_natural(const Words31<E>& x, uint32_t* out, Layout31 layout) const {
        out += block * layout.stride;
        if (is_whole(layout)) return store<0>(x, out);
        const uint32_t own = first<0>();
        each<0>([&](uint32_t i, uint32_t offset) {
            if (own + offset < layout.length) out[own + offset] = x[i];
        });
    }
    // Multiplies the word of row r by factors[r].
    FN void scale(Words31<E>& x, const Twiddle31* factors, const Prime31& f) const {
        constexpr uint32_t K = ColumnsTile::D::bits(0);
        factors += ColumnsTile::template number<0>(threadIdx.x, 0) >> C;
#pragma unroll
        for (uint32_t g = 0; g < ColumnsTile::WORDS >> K; g++)
#pragma unroll
            for (uint32_t j = 0; j < 1 << K; j++) {
                const uint32_t row = ColumnsTile::template number<0>(g * ColumnsTile::THREADS, j) >> C;
                x[g << K | j] = multiply(x[g << K | j], entry(factors + row), f);
            }
    }

private:
    FN bool is_whole(Layout31 layout) const { return layout.length >> lg_columns >> S; }
};

// Natural order to bit-reversed. `factors` may be null.
template <class Pass>
FN void columns_dif(uint32_t* tile, const uint32_t* in, Layout31 layout, uint32_t* out,
                    const ColumnTables31& tables, uint32_t lg_block, const Prime31& f) {
    const Pass pass(lg_block);
    const Powers31<Pass> powers(pass, tables);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_natural(x, in, layout);
    if (tables.factors) pass.scale(x, tables.factors, f);
    Pass::ColumnsTile::frequencies(x, tile, tables.twiddles, f);
    powers.multiply_by(x, f);
    pass.store_reversed(x, out + (pass.block << lg_block));
}

// Bit-reversed order to natural. `factors` may be null.
template <class Pass>
FN void columns_dit(uint32_t* tile, const uint32_t* in, uint32_t* out, Layout31 layout,
                    const ColumnTables31& tables, uint32_t lg_block, const Prime31& f) {
    const Pass pass(lg_block);
    const Powers31<Pass> powers(pass, tables);
    Words31<Pass::LG_WORDS> x;
    await_whole_predecessor();
    pass.load_reversed(x, in + (pass.block << lg_block));
    powers.multiply_by(x, f);
    Pass::ColumnsTile::points(x, tile, tables.twiddles, f);
    if (tables.factors) pass.scale(x, tables.factors, f);
    pass.store_natural(x, out, layout);
}
