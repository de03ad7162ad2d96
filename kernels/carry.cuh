// Arithmetic on 32-bit words with a carry flag, and everything else that differs between nvcc and a
// host compiler. All PTX of the project is in this file. Each instruction has a host twin below, so
// the code above this layer is one source for both compilers. The power-on self-test compares the
// two on the device (selftest.cu).
//
// PTX has one flag, CC.CF: the carry of an addition or the borrow of a subtraction. The next
// instruction of a chain reads it, whichever it is. ptxas fuses mad.lo.cc / madc.hi.cc on two
// adjacent accumulator words into one IMAD.WIDE.U32.X if the low word has an even register index
// and both are written together. It splits a mad.wide.u32 with a 64-bit accumulator in three.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__

#define FN __device__ __forceinline__
#define NOINLINE __device__ __noinline__
#define CONSTANT __device__ constexpr
#define UNROLL _Pragma("unroll")
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define EXPORT_KERNEL(name)
#define SHARED(T, name, count) __shared__ T name[count]
#define DYNAMIC_SHARED(T, name)                              \
    extern __shared__ __align__(16) unsigned char name##_[]; \
    T* name = reinterpret_cast<T*>(name##_)
#define ASSERT_RANGE(condition)

#define WORDS2(fn, op)                                                 \
    FN uint32_t fn(uint32_t a, uint32_t b) {                           \
        uint32_t r;                                                    \
        asm volatile(op " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));    \
        return r;                                                      \
    }
#define WORDS3(fn, op)                                                             \
    FN uint32_t fn(uint32_t a, uint32_t b, uint32_t c) {                           \
        uint32_t r;                                                                \
        asm volatile(op " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));    \
        return r;                                                                  \
    }
WORDS2(add_cc, "add.cc.u32")
WORDS2(addc_cc, "addc.cc.u32")
WORDS2(addc, "addc.u32")
WORDS2(sub_cc, "sub.cc.u32")
WORDS2(subc_cc, "subc.cc.u32")
WORDS2(subc, "subc.u32")
WORDS3(mad_lo_cc, "mad.lo.cc.u32")
WORDS3(madc_lo_cc, "madc.lo.cc.u32")
WORDS3(madc_hi_cc, "madc.hi.cc.u32")
WORDS3(madc_hi, "madc.hi.u32")
#undef WORDS2
#undef WORDS3
// x += m and x -= m on eight words if the condition holds; the carry out is dropped. Predicated,
// since a mask would cost one operation per word. The last addition sets an unused carry: without
// it, ptxas adds unconditionally and then selects.
#define EIGHT_WORDS(fn, first, next, last)                                                       \
    FN void fn(uint32_t* x, const uint32_t* m, bool condition) {                                 \
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %16, 0; @p " first " %0, %0, %8; "          \
                     "@p " next " %1, %1, %9; @p " next " %2, %2, %10; "                         \
                     "@p " next " %3, %3, %11; @p " next " %4, %4, %12; "                        \
                     "@p " next " %5, %5, %13; @p " next " %6, %6, %14; "                        \
                     "@p " last " %7, %7, %15; }"                                                \
                     : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3]), "+r"(x[4]), "+r"(x[5]),   \
                       "+r"(x[6]), "+r"(x[7])                                                    \
                     : "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3]), "r"(m[4]), "r"(m[5]),         \
                       "r"(m[6]), "r"(m[7]), "r"(uint32_t(condition)));                          \
    }
EIGHT_WORDS(add_words_if, "add.cc.u32", "addc.cc.u32", "addc.cc.u32")
EIGHT_WORDS(sub_words_if, "sub.cc.u32", "subc.cc.u32", "subc.u32")
#undef EIGHT_WORDS
// PTX, because nvcc turns uint64_t(a) * b into a 64-bit product and adds zeros to its upper word.
FN uint64_t wide_product(uint32_t a, uint32_t b) {
    uint64_t r;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b));
    return r;
}

// Returns `pointer`, a global address, but hides its origin from nvcc, which would otherwise split
// address sums and rebuild each address from its oldest term, with more instructions and registers.
template <class T> FN T* opaque(T* pointer) {
    T* same;
    asm("mov.b64 %0, %1;" : "=l"(same) : "l"(pointer));
    __builtin_assume(__isGlobal(same));
    return same;
}

// A zero that ptxas cannot see. With a visible zero it turns `a + carry` into an IMAD.X, on the
// pipe that products need, and folds `0 - x` into later products, which it then splits.
__constant__ uint32_t OPAQUE_ZERO = 0;
FN uint32_t opaque_zero() { return OPAQUE_ZERO; }

FN uint32_t leading_zeros(uint32_t a) { return uint32_t(__clz(int(a))); }
FN uint32_t funnel_left(uint32_t lo, uint32_t hi, uint32_t s) { return __funnelshift_l(lo, hi, s); }
FN uint32_t funnel_right(uint32_t lo, uint32_t hi, uint32_t s) {
    return __funnelshift_r(lo, hi, s);
}

FN uint32_t reverse_bits(uint32_t a) { return __brev(a); }

// Prefetches a line of global memory into the L2 cache.
FN void prefetch(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }
// Loads 16 bytes of read-only global memory with an evict-first policy: data that is rarely reused.
FN void load16_once(uint32_t* to, const void* global) {
    asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "
                 "ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy; }"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(global));
}

// Programmatic dependent launch (`with_pdl` in src/gpu/device/kernel.rs): each thread calls this
// before it accesses memory. It waits until the previous kernel in the stream has ended and its
// writes are visible, then lets the next kernel start early.
FN void await_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// The same, except that the next kernel starts only when this one's blocks have exited: its waiting
// blocks could crowd this kernel's on some multiprocessors. Tables that no kernel wrote may be read
// before this.
FN void await_whole_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Copies 16 bytes from global to shared memory asynchronously. A thread sees its own copies after
// copies_wait<N>, which leaves the N newest groups in flight; others see them after a barrier.
FN void copy16_async(void* shared, const void* global) {
    const uint32_t to = uint32_t(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
FN void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FN void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Adds the product of two matrices of bits to a matrix of counts, by a warp: 16 rows of 256 bits
// and 8 columns of 256 bits. kernels/host/cuda_host/mma.hpp says which part each lane has. Devices
// from compute capability 10.0 on have no such instruction.
FN void binary_mma(uint32_t* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ < 1000
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap();
#endif
}

#else

// FN, KERNEL and the other macros; threads, barriers, shuffles and atomics.
#include "host/cuda_host.hpp"

// For the loops in which the emulation spends most of its time; g++ ignores `#pragma unroll`.
#define UNROLL _Pragma("GCC unroll 16")

inline thread_local uint32_t CARRY_FLAG;
FN uint32_t keep_carry(uint64_t wide) {
    CARRY_FLAG = uint32_t(wide >> 32) & 1;
    return uint32_t(wide);
}
FN uint64_t wide_product(uint32_t a, uint32_t b) { return uint64_t(a) * b; }
template <class T> FN T* opaque(T* pointer) { return pointer; }
FN uint32_t add_cc(uint32_t a, uint32_t b) { return keep_carry(uint64_t(a) + b); }
FN uint32_t addc_cc(uint32_t a, uint32_t b) { return keep_carry(uint64_t(a) + b + CARRY_FLAG); }
FN uint32_t addc(uint32_t a, uint32_t b) { return a + b + CARRY_FLAG; }
FN uint32_t sub_cc(uint32_t a, uint32_t b) { return keep_carry(uint64_t(a) - b); }
FN uint32_t subc_cc(uint32_t a, uint32_t b) { return keep_carry(uint64_t(a) - b - CARRY_FLAG); }
FN uint32_t subc(uint32_t a, uint32_t b) { return a - b - CARRY_FLAG; }
FN uint32_t mad_lo_cc(uint32_t a, uint32_t b, uint32_t c) {
    return keep_carry((wide_product(a, b) & 0xffffffffu) + c);
}
FN uint32_t madc_lo_cc(uint32_t a, uint32_t b, uint32_t c) {
    return keep_carry((wide_product(a, b) & 0xffffffffu) + c + CARRY_FLAG);
}
FN uint32_t madc_hi_cc(uint32_t a, uint32_t b, uint32_t c) {
    return keep_carry((wide_product(a, b) >> 32) + c + CARRY_FLAG);
}
FN uint32_t madc_hi(uint32_t a, uint32_t b, uint32_t c) {
    return uint32_t(wide_product(a, b) >> 32) + c + CARRY_FLAG;
}
FN uint32_t opaque_zero() { return 0; }
FN uint32_t leading_zeros(uint32_t a) { return a ? uint32_t(__builtin_clz(a)) : 32; }
FN uint32_t funnel_left(uint32_t lo, uint32_t hi, uint32_t s) {
    return uint32_t((uint64_t(hi) << 32 | lo) << (s & 31) >> 32);
}
FN uint32_t funnel_right(uint32_t lo, uint32_t hi, uint32_t s) {
    return uint32_t((uint64_t(hi) << 32 | lo) >> (s & 31));
}
FN void add_words_if(uint32_t* x, const uint32_t* m, bool condition) {
    if (!condition) return;
    x[0] = add_cc(x[0], m[0]);
    for (int i = 1; i < 8; i++) x[i] = addc_cc(x[i], m[i]);
}
FN void sub_words_if(uint32_t* x, const uint32_t* m, bool condition) {
    if (!condition) return;
    x[0] = sub_cc(x[0], m[0]);
    for (int i = 1; i < 8; i++) x[i] = subc_cc(x[i], m[i]);
}
FN uint32_t reverse_bits(uint32_t a) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i);
    return r;
}
FN void prefetch(const void*) {}
FN void load16_once(uint32_t* to, const void* global) { std::memcpy(to, global, 16); }

#endif

// Returns a plus the carry flag.
FN uint32_t add_carry(uint32_t a) { return addc(a, opaque_zero()); }
// hi:lo = a b.
FN void mul_wide(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    const uint64_t wide = wide_product(a, b);
    lo = uint32_t(wide);
    hi = uint32_t(wide >> 32);
}
#ifdef __CUDACC__
// hi:lo += a b; starts a chain.
FN void mad_first(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    lo = mad_lo_cc(a, b, lo);
    hi = madc_hi_cc(a, b, hi);
}
// hi:lo += a b + carry; continues a chain.
FN void mad_next(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    lo = madc_lo_cc(a, b, lo);
    hi = madc_hi_cc(a, b, hi);
}
#else
// Both instructions of a pair at once: the emulation spends most of its time here.
FN void mad_pair(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b, uint32_t carry) {
    uint64_t sum = uint64_t(hi) << 32 | lo;
    bool over = __builtin_add_overflow(sum, wide_product(a, b), &sum);
    over |= __builtin_add_overflow(sum, uint64_t(carry), &sum);
    lo = uint32_t(sum);
    hi = uint32_t(sum >> 32);
    // Written last, so that the compiler need not assume that lo and hi alias the flag.
    CARRY_FLAG = over;
}
FN void mad_first(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    mad_pair(lo, hi, a, b, 0);
}
FN void mad_next(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    mad_pair(lo, hi, a, b, CARRY_FLAG);
}
#endif
// hi:lo += a b + carry; ends a chain, if no carry can leave hi.
FN void mad_last(uint32_t& lo, uint32_t& hi, uint32_t a, uint32_t b) {
    lo = madc_lo_cc(a, b, lo);
    hi = madc_hi(a, b, hi);
}
