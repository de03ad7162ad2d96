// Products of a sparse matrix and a vector: out[row] = the sum over the row's terms of coefficient
// times vector[column]. Elements are canonical, in Montgomery form.
//
// fr_sparse_products: a block computes one task. The host lists tasks of about equal numbers of
// terms, once per matrix (src/gpu/ntt/pointwise/sparse_tasks.rs). A task is
// - a tile: adjacent rows of any lengths, with up to TILE_TERMS terms in all. Each thread computes
//   terms, wherever their rows begin, and stores them in shared memory; after a barrier, each
//   thread sums rows. So loads of terms are contiguous, and products are balanced over the lanes.
// - or one row, or a piece of a row, of any length: each thread sums terms, then the block sums its
//   threads' sums, in a tree with a barrier per level. The sum of a piece goes to `pieces`.
//
// fr_sparse_split_rows: a block sums the pieces of one row.
//
// Launch: blocks of 128, one per task. Shared memory: TILE_TERMS elements; one element per thread.
//
// Cost per term: 8 bytes of the term and a sector of 32 bytes of the vector, plus, unless the
// coefficient is 1 or -1, 112 limb products and a coefficient, mostly from cache. Per row: 4 bytes
// read and 32 written.
#include "block_sum.cuh"

constexpr uint32_t THREADS = 128, TILE_TERMS = 512;

// Coefficients that are not stored, and the index of the first one that is.
constexpr uint32_t ONE = 0, MINUS_ONE = 1, UNIT_COEFFICIENTS = 2;

struct alignas(8) MatrixTerm {
    uint32_t column, coefficient;
};
// Adjacent terms, or sums of pieces, and where their sums go.
struct alignas(16) RowTask {
    uint32_t first, count; // terms, or sums of pieces
    uint32_t target;       // the first row, or the number of the piece
    uint32_t rows;         // 0: a piece of a row
};

FN Fr term_value(const MatrixTerm& term, const Quad* coefficients, const Quad* vector) {
    const Fr x = load_element(vector, term.column);
    if (term.coefficient == ONE) return x;
    if (term.coefficient == MINUS_ONE) return neg(x);
    const Fr factor = load_element(coefficients, term.coefficient - UNIT_COEFFICIENTS);
    return reduce_once<1>(mul(x, factor));
}

KERNEL(128)
fr_sparse_products(const Quad* coefficients, const MatrixTerm* terms, const uint32_t* row_ends,
                   const RowTask* tasks, const Quad* vector, Quad* out, Quad* pieces) {
    // The lower and the upper halves of elements.
    SHARED(Quad, shared, 2 * TILE_TERMS);
    Quad *const low = shared, *const high = shared + TILE_TERMS;
    const RowTask task = tasks[blockIdx.x];
    terms += task.first;
    if (task.rows < 2) {
        Fr sum = Fr::zero();
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < task.count; i += THREADS) {
            sum = add(sum, term_value(terms[i], coefficients, vector));
        }
        sum = block_sum<THREADS>(sum, shared);
        if (threadIdx.x == 0) store_element(task.rows ? out : pieces, task.target, sum);
        return;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < task.count; i += THREADS) {
        store_halves(low + i, high + i, term_value(terms[i], coefficients, vector));
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < task.rows; i += THREADS) {
        const uint32_t row = task.target + i;
        uint32_t at = i > 0 ? row_ends[row - 1] - task.first : 0;
        const uint32_t end = row_ends[row] - task.first;
        ASSERT_RANGE(at <= end && end <= TILE_TERMS);
        Fr sum = Fr::zero();
#pragma unroll 1
        for (; at < end; at++) sum = add(sum, from_halves(low[at], high[at]));
        store_element(out, row, sum);
    }
}
EXPORT_KERNEL(fr_sparse_products);

KERNEL(128) fr_sparse_split_rows(const RowTask* rows, const Quad* pieces, Quad* out) {
    SHARED(Quad, shared, 2 * THREADS);
    const RowTask row = rows[blockIdx.x];
    Fr sum = Fr::zero();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < row.count; i += THREADS) {
        sum = add(sum, load_element(pieces, row.first + i));
    }
    sum = block_sum<THREADS>(sum, shared);
    if (threadIdx.x == 0) store_element(out, row.target, sum);
}
EXPORT_KERNEL(fr_sparse_split_rows);
