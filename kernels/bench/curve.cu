// Throughput of point additions.
//
// gN_add: sums of pairs of table points. g1_add_keep_x: fetches each coordinate once, by keeping
// both x in scratch. One block of 512 threads per multiprocessor, G2 256.
// Shared memory: 5 elements for each thread plus 2. Scratch bytes: grid x block x chain x 48, G2 x
// 96, once x 144. Operations: n. See ../batch_affine.cuh.
//
// gN_xyzz: buckets x size points of the table, in XYZZ sums of `size` points each. Two blocks of
// 128 threads per multiprocessor, G2 one of 256. Shared memory per thread: 96 bytes, G2 576. See
// ../accumulate.cuh.
//
// g1_xyzz_unbalanced: buckets of any size, one thread per bucket: the baseline for load balancing.
// out[b] = the sum of references[starts[b]] to references[starts[b + 1] - 1], which count from the
// start of the arena: `table` is point number `first`.
#include "../accumulate.cuh"
#include "../batch_affine.cuh"

#define ADD(name, F, threads, keep_x) \
    KERNEL(threads, 1) \
    name(Affine<F>* out, Quad* scratch, const Affine<F>* table, const Pair* pairs, uint32_t n, \
         uint32_t chain) { \
        DYNAMIC_SHARED(Quad, stage); \
        const Summands<F> summands = {table, pairs}; \
        add_batched<F, keep_x, threads>(out, scratch, stage, summands, n, chain); \
    } \
    EXPORT_KERNEL(name);
ADD(g1_add, Fp, 512, false)
ADD(g1_add_keep_x, Fp, 512, true)
ADD(g2_add, Fp2, 256, false)

#define XYZZ(name, F, threads, blocks, sum) \
    KERNEL(threads, blocks) \
    name(Xyzz<F>* out, const Affine<F>* table, const uint32_t* references, uint32_t buckets, \
         uint32_t size) { \
        DYNAMIC_SHARED(Quad, stage); \
        accumulate_buckets(out, sum<F, threads>(stage), table, references, buckets, size); \
    } \
    EXPORT_KERNEL(name);
XYZZ(g1_xyzz, Fp, 128, 2, sum_in_registers)
XYZZ(g2_xyzz, Fp2, 256, 1, sum_in_shared)

KERNEL(128, 2)
g1_xyzz_unbalanced(Xyzz<Fp>* out, const Affine<Fp>* table, const uint32_t* references,
                   const uint32_t* starts, uint32_t buckets, uint32_t first) {
    DYNAMIC_SHARED(Quad, stage);
    table -= first;
    auto bucket = sum_in_registers<Fp, 128>(stage);
    for (uint32_t b = blockIdx.x * 128 + threadIdx.x; b < buckets; b += gridDim.x * 128) {
        const uint32_t size = starts[b + 1] - starts[b];
        bucket.sum.zz = zero<Fp>();
        if (size > 0) accumulate_bucket(bucket, table, references + starts[b], size);
        store_sum(&out[b], bucket.sum);
    }
}
EXPORT_KERNEL(g1_xyzz_unbalanced);
