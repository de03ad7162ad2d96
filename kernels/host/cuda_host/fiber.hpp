// Fibers, which emulate CUDA threads: a stack and a point to resume at.
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
class FiberStack {
public:
    // The sanitizer's red zones make frames several times larger.
    static constexpr size_t bytes = CUDA_HOST_ASAN ? 1 << 20 : 128 << 10;

    FiberStack();
    ~FiberStack();
    FiberStack(const FiberStack&) = delete;
    FiberStack& operator=(const FiberStack&) = delete;

    char* bottom() const { return base_; }

    /// Tells the sanitizer that the uppermost `bytes` hold no live variables: a fiber that was
    /// abandoned never returned from its functions.
    void forget(size_t bytes) const;

private:
    char* mapped_;
    char* base_;
};

/// A saved execution state: a fiber's, or the scheduler's on its OS thread's own stack.
struct FiberContext {
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

/// Prepares `context` to run `entry` on the stack. `entry` calls `arrived` first and never returns.
void prepare(FiberContext& context, const FiberStack& stack, void (*entry)());

/// Switches from `from` to `to`; returns when `from` is resumed. `last`: `from` never resumes.
void switch_context(FiberContext& from, FiberContext& to, bool last = false);

/// Must be called first on a new fiber; `from` is the context that switched to it.
void arrived(FiberContext& from);

} // namespace cuda_host
