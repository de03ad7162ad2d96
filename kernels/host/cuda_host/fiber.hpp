// A CUDA thread is a fiber: a stack and a place to resume at.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define CUDA_HOST_ASAN 1
#include <sanitizer/common_interface_defs.h>
#else
#define CUDA_HOST_ASAN 0
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define CUDA_HOST_UCONTEXT 1
#else
#define CUDA_HOST_UCONTEXT 0
#endif

namespace cuda_host {

/// A stack with a guard page below it.
class Stack {
public:
    // The sanitizer's red zones make frames several times as large.
    static constexpr size_t bytes = CUDA_HOST_ASAN ? 1 << 20 : 128 << 10;

    Stack();
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    char* bottom() const { return base_; }

    /// Tells the sanitizer that the uppermost `bytes` hold no variable any more: who left the stack
    /// for good never returned from its functions.
    void forget(size_t bytes) const;

private:
    char* mapped_;
    char* base_;
};

/// Where execution stands: a fiber's, or the scheduler's on its OS thread's own stack.
struct Context {
#if CUDA_HOST_UCONTEXT
    ucontext_t state;
#else
    void* stack_pointer = nullptr;
#endif
#if CUDA_HOST_ASAN
    void* fake_stack = nullptr;
    const void* bottom = nullptr;
    size_t size = 0;
#endif
};

/// Makes `context` begin `entry` on the stack. `entry` calls `arrived` first and never returns.
void prepare(Context& context, const Stack& stack, void (*entry)());

/// Leaves `from` for `to`; returns when somebody switches back. `last`: `from` never resumes.
void switch_context(Context& from, Context& to, bool last = false);

/// To be called first on a new fiber; `from` is who switched to it.
void arrived(Context& from);

} // namespace cuda_host
