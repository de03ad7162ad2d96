// Scans of rows of `length` elements: quotients of polynomials by X - z, and prefix products.
//
// A row consists of `chunks` chunks, one per block; a chunk of 128 chains of `each` elements, a
// multiple of 4, one per thread. Elements beyond the end of a row count as zeros. A first kernel
// scans the chains of each chunk, and the caller scans the chunks; a second kernel then walks each
// chain from what is above or below it.
//
// Quotients are suffix sums by Horner's rule: q[i] = f[i + 1] + z q[i + 1], and 0 for the last
// coefficient.
//
// fr_horner_suffixes stores for each chain the value at z of the coefficients above it in its
// chunk (`suffixes`), by a scan of the chains' values over the block. If a row has several chunks,
// it also stores the chunks' values (`sums`) and z^(each (127 - t)) for chain t (`weights`). The
// caller divides each row of sums by X - z^(128 each), which yields the values of all coefficients
// above each chunk (`carries`). fr_divide_by_linear then knows the quotient's coefficient at the
// top of each chain.
//
// fr_chain_products stores for each chain the product of the elements below it in its chunk
// (`prefixes`), and, if a row has several chunks, the chunks' products. Their prefix products are
// the `carries` of fr_prefix_products.
//
// Elements are canonical, in Montgomery form. `out` may be `values`: a warp accesses only its own
// chains and reads before it writes.
//
// Cost per element: two products, by a constant in quotients, and 96 bytes; per chain, 6 products
// for the scan (it skips warps without a partner), one for the carry, and 64 bytes.
//
// Launch: blocks of 128, one per chunk; 8 per multiprocessor, the most without spilled registers
// (not measured). Shared memory: 4 coefficients per chain. Barriers: two per step of the scan;
// tiles need the warp's only.
#include "../warp.cuh"
#include "multiples.cuh"
#include "passes.cuh"

constexpr uint32_t THREADS = 128, LG_THREADS = 7;
// Coefficients of a chain in a tile, and their halves: 128 bytes.
constexpr uint32_t TILE_LENGTH = 4, TILE_HALVES = 2 * TILE_LENGTH;

// z^(each 2^k).
struct ChainPowers {
    Fr w[LG_THREADS];
};

// The chains of a warp, and a tile in shared memory with TILE_LENGTH coefficients of each. Eight
// lanes copy those of one chain, so that accesses to device memory are contiguous; then each lane
// accesses those of its own chain. A chain's halves are permuted to avoid bank conflicts.
struct WarpChains {
    Quad* tile;
    uint64_t first;        // coefficient of the warp, in the matrix
    uint32_t length, each; // coefficients up to the end of the row, and per chain

    FN WarpChains(Quad* tiles, uint64_t row_length, uint32_t chunks, uint32_t each)
        : tile(tiles + warp_index() * LANES * TILE_HALVES), each(each) {
        const uint32_t row = blockIdx.x / chunks, chunk = blockIdx.x - row * chunks;
        const uint64_t in_row = (uint64_t(chunk) * THREADS + warp_index() * LANES) * each;
        const uint64_t left = in_row < row_length ? row_length - in_row : 0;
        first = row * row_length + in_row;
        length = left < LANES * each ? uint32_t(left) : LANES * each;
    }
    // Coefficients to process per chain: none if all chains are beyond the end.
    FN uint32_t count() const { return length > 0 ? each : 0; }
    FN uint32_t place(uint32_t chain, uint32_t half) const {
        return chain * TILE_HALVES + (half ^ chain % TILE_HALVES);
    }
    // Calls access(number, address, place in the tile) for eight halves: the lane's share of the
    // coefficients k to k + 3 of each chain. The address is null beyond the end of the row.
    template <class Half, class Access>
    FN void each_half(Half* memory, uint32_t k, Access access) const {
        constexpr uint32_t CHAINS = LANES / TILE_HALVES; // at a time
        const uint32_t lane_chain = lane_index() / TILE_HALVES, half = lane_index() % TILE_HALVES;
        uint32_t element = lane_chain * each + k + half / 2;
        Half* at = opaque(memory + 2 * (first + element) + half % 2);
#pragma unroll
        for (uint32_t i = 0; i < TILE_HALVES; i++) {
            access(i, element < length ? at : nullptr, place(CHAINS * i + lane_chain, half));
            element += CHAINS * each, at = opaque(at + 2 * CHAINS * each);
        }
    }
    FN void load(const Quad* values, uint32_t k) const {
        Quad halves[TILE_HALVES];
        each_half(values, k, [&](uint32_t i, const Quad* from, uint32_t) {
            halves[i] = from ? *from : Quad{{0, 0, 0, 0}};
        });
        __syncwarp();
        each_half(values, k, [&](uint32_t i, const Quad*, uint32_t to) { tile[to] = halves[i]; });
        __syncwarp();
    }
    FN void store(Quad* out, uint32_t k) const {
        __syncwarp();
        each_half(out, k, [&](uint32_t, Quad* to, uint32_t from) {
            if (to) *to = tile[from];
        });
    }
    // Coefficient i of the lane's own chain in the tile.
    FN Fr get(uint32_t i) const {
        const uint32_t lane = lane_index();
        return from_halves(tile[place(lane, 2 * i)], tile[place(lane, 2 * i + 1)]);
    }
    FN void put(uint32_t i, const Fr& x) const {
        const uint32_t lane = lane_index();
        store_halves(&tile[place(lane, 2 * i)], &tile[place(lane, 2 * i + 1)], x);
    }
};

// x + z sum, below 2.01 r.
FN Fr horner(const Fr& sum, const FactorMultiples& z, const Fr& x) {
    return add_lazy(z.times(sum), x);
}
// The canonical product of canonical elements.
FN Fr product(const Fr& a, const Fr& b) { return reduce_once<1>(mul(a, b)); }

// Returns the sum over the threads u >= t of mine_u z^(each (u - t)).
FN Fr block_suffix(Fr mine, const ChainPowers& powers, Quad* shared) {
    const uint32_t t = threadIdx.x;
#pragma unroll 1
    for (uint32_t k = 0; k < LG_THREADS; k++) {
        __syncthreads(); // all have read `shared`
        store_element(shared, t, mine);
        __syncthreads();
        const uint32_t above = t + (1u << k);
        if (above < THREADS) {
            mine = add(mine, product(load_element(shared, above), powers.w[k]));
        }
    }
    return mine;
}
// z^(each exponent), exponent < 128.
FN Fr chain_power(const ChainPowers& powers, uint32_t exponent) {
    Fr power = Fr::one();
#pragma unroll 1
    for (uint32_t k = 0; k < LG_THREADS; k++) {
        if (exponent >> k & 1) power = mul(power, powers.w[k]);
    }
    return canonical(power);
}

KERNEL(128, 8)
fr_horner_suffixes(const Quad* values, Quad* suffixes, Quad* sums, Quad* weights, uint64_t length,
                   uint32_t chunks, uint32_t each, const FactorMultiples z,
                   const ChainPowers powers) {
    SHARED(Quad, tiles, TILE_HALVES * THREADS);
    const WarpChains chains(tiles, length, chunks, each);
    const uint32_t t = threadIdx.x;
    Fr sum = Fr::zero();
#pragma unroll 1
    for (uint32_t k = chains.count(); k > 0;) {
        k -= TILE_LENGTH;
        chains.load(values, k);
#pragma unroll
        for (int i = TILE_LENGTH - 1; i >= 0; i--) sum = horner(sum, z, chains.get(i));
    }
    const Fr from_here = block_suffix(canonical(sum), powers, tiles);
    __syncthreads();
    store_element(tiles, t, from_here);
    __syncthreads();
    const Fr above = t + 1 < THREADS ? load_element(tiles, t + 1) : Fr::zero();
    store_element(suffixes, uint64_t(blockIdx.x) * THREADS + t, above);
    if (chunks == 1) return;
    if (t == 0) store_element(sums, blockIdx.x, from_here);
    if (blockIdx.x == 0) store_element(weights, t, chain_power(powers, THREADS - 1 - t));
}
EXPORT_KERNEL(fr_horner_suffixes);

// `carries` and `weights` are not read if a row is one chunk.
KERNEL(128, 8)
fr_divide_by_linear(const Quad* values, Quad* out, const Quad* suffixes, const Quad* carries,
                    const Quad* weights, uint64_t length, uint32_t chunks, uint32_t each,
                    const FactorMultiples z) {
    SHARED(Quad, tiles, TILE_HALVES * THREADS);
    const WarpChains chains(tiles, length, chunks, each);
    Fr quotient = load_element(suffixes, uint64_t(blockIdx.x) * THREADS + threadIdx.x);
    if (chunks > 1) {
        const Fr carry = load_element(carries, blockIdx.x);
        quotient = add(quotient, product(carry, load_element(weights, threadIdx.x)));
    }
#pragma unroll 1
    for (uint32_t k = chains.count(); k > 0;) {
        k -= TILE_LENGTH;
        chains.load(values, k);
#pragma unroll
        for (int i = TILE_LENGTH - 1; i >= 0; i--) {
            const Fr x = chains.get(i);
            Fr whole = quotient;
            finish(whole);
            chains.put(i, whole);
            quotient = horner(quotient, z, x);
        }
        chains.store(out, k);
    }
}
EXPORT_KERNEL(fr_divide_by_linear);

// Returns the product over the threads u <= t of mine_u.
FN Fr block_prefix(Fr mine, Quad* shared) {
    const uint32_t t = threadIdx.x;
#pragma unroll 1
    for (uint32_t k = 0; k < LG_THREADS; k++) {
        __syncthreads(); // all have read `shared`
        store_element(shared, t, mine);
        __syncthreads();
        if (t >= 1u << k) mine = product(load_element(shared, t - (1u << k)), mine);
    }
    return mine;
}

KERNEL(128, 8)
fr_chain_products(const Quad* values, Quad* prefixes, Quad* products, uint64_t length,
                  uint32_t chunks, uint32_t each) {
    SHARED(Quad, tiles, TILE_HALVES * THREADS);
    const WarpChains chains(tiles, length, chunks, each);
    const uint32_t t = threadIdx.x;
    Fr all = canonical(Fr::one());
#pragma unroll 1
    for (uint32_t k = 0; k < chains.count(); k += TILE_LENGTH) {
        chains.load(values, k);
#pragma unroll 1
        for (uint32_t i = 0; i < TILE_LENGTH; i++) all = product(all, chains.get(i));
    }
    const Fr to_here = block_prefix(all, tiles);
    __syncthreads();
    store_element(tiles, t, to_here);
    __syncthreads();
    const Fr below = t > 0 ? load_element(tiles, t - 1) : canonical(Fr::one());
    store_element(prefixes, uint64_t(blockIdx.x) * THREADS + t, below);
    if (chunks > 1 && t == THREADS - 1) store_element(products, blockIdx.x, to_here);
}
EXPORT_KERNEL(fr_chain_products);

// out[i] = the product of the row's elements up to i. `carries` is not read if a row is one chunk.
KERNEL(128, 8)
fr_prefix_products(const Quad* values, Quad* out, const Quad* prefixes, const Quad* carries,
                   uint64_t length, uint32_t chunks, uint32_t each) {
    SHARED(Quad, tiles, TILE_HALVES * THREADS);
    const WarpChains chains(tiles, length, chunks, each);
    Fr all = load_element(prefixes, uint64_t(blockIdx.x) * THREADS + threadIdx.x);
    if (blockIdx.x % chunks > 0) all = product(load_element(carries, blockIdx.x - 1), all);
#pragma unroll 1
    for (uint32_t k = 0; k < chains.count(); k += TILE_LENGTH) {
        chains.load(values, k);
#pragma unroll 1
        for (uint32_t i = 0; i < TILE_LENGTH; i++) {
            all = product(all, chains.get(i));
            chains.put(i, all);
        }
        chains.store(out, k);
    }
}
EXPORT_KERNEL(fr_prefix_products);
