#include "fiber.hpp"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#if CUDA_HOST_ASAN
#include <sanitizer/asan_interface.h>
#endif

// Saves the callee-saved registers on the old stack and restores those of the new one: some ten
// instructions, without the system call for the signal mask that swapcontext makes.
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.hidden cuda_host_switch
.globl cuda_host_switch
.type cuda_host_switch, @function
cuda_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_host_switch, . - cuda_host_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.hidden cuda_host_switch
.globl cuda_host_switch
.type cuda_host_switch, %function
cuda_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size cuda_host_switch, . - cuda_host_switch
)");
#endif

extern "C" void cuda_host_switch(void** save, void* load);

namespace cuda_host {

FiberStack::FiberStack() {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* at = mmap(nullptr, page + bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0) {
        std::perror("emulated driver: cannot map the stack of a thread");
        std::abort();
    }
    mapped_ = static_cast<char*>(at);
    base_ = mapped_ + page;
}

FiberStack::~FiberStack() { munmap(mapped_, size_t(base_ - mapped_) + bytes); }

void FiberStack::forget([[maybe_unused]] size_t upper) const {
#if CUDA_HOST_ASAN
    ASAN_UNPOISON_MEMORY_REGION(base_ + bytes - upper, upper);
#endif
}

void prepare(FiberContext& context, const FiberStack& stack, void (*entry)()) {
#if CUDA_HOST_ASAN
    context.fake_stack = nullptr, context.bottom = stack.bottom(), context.size = FiberStack::bytes;
#endif
#if CUDA_HOST_UCONTEXT
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack.bottom();
    context.state.uc_stack.ss_size = FiberStack::bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
#else
    auto* top = reinterpret_cast<void**>(stack.bottom() + FiberStack::bytes);
#if defined(__x86_64__)
    // One word above the return address, as after a call: the ABI requires rsp = 8 mod 16 on entry.
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(entry);
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
#else
    top -= 20;
    for (int saved = 0; saved < 20; saved++) top[saved] = nullptr;
    top[11] = reinterpret_cast<void*>(entry); // x30
#endif
    context.stack_pointer = top;
#endif
}

void switch_context(FiberContext& from, FiberContext& to, [[maybe_unused]] bool last) {
#if CUDA_HOST_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
#if CUDA_HOST_UCONTEXT
    swapcontext(&from.state, &to.state);
#else
    cuda_host_switch(&from.stack_pointer, to.stack_pointer);
#endif
#if CUDA_HOST_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void arrived([[maybe_unused]] FiberContext& from) {
#if CUDA_HOST_ASAN
    // The first fiber to run on an OS thread records that thread's own stack.
    __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.size);
#endif
}

} // namespace cuda_host
