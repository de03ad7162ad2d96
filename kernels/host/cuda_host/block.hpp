// Runs one block: its threads are fibers, in an order that depends on a seed.
#pragma once

#include <array>
#include <cstdarg>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "kernel.hpp"
#include "random.hpp"

namespace cuda_host {

/// Why a launch failed: a CUDA error code and a readable reason.
struct Failure {
    int code = 0;
    std::string text;
};

/// One launch of a kernel.
struct KernelLaunch {
    const Kernel* kernel;
    dim3 grid, block;
    uint32_t dynamic_shared_bytes;
    uint32_t shared_bytes_max; // static and dynamic, after opting in
    const void* arguments;     // packed
    uint64_t seed;             // 0: threads and blocks run in natural order
    bool early;                // may start before the previous work in its stream has ended
};

/// Runs all blocks, several at a time; returns the first failure.
Failure run_grid(const KernelLaunch& grid);

/// Formats like printf.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

class Block {
public:
    static constexpr uint32_t threads_max = 1024;

    /// The block that runs on this OS thread, or null.
    static Block* here();

    /// Runs block `index` of the grid to its end or its first failure.
    Failure run(const KernelLaunch& grid, uint3 index, uint64_t number);

    void wait_for_block(CodeLocation where);
    void wait_for_warp(const ExchangeRequest& request, CodeLocation where);
    void await_predecessor() { threads_[current_].awaited = true; }
    [[noreturn]] void fail(int code, std::string text);

    void* static_shared(uint32_t site, size_t bytes, size_t align);
    void* dynamic_shared() { return dynamic_.get(); }

    void copy_async(void* to, const void* from, uint32_t bytes);
    void commit_copies();
    void wait_copies(uint32_t groups);

private:
    enum class ThreadState : uint8_t { ready, waits_for_block, waits_for_warp, returned };
    struct PendingCopy {
        void* to;
        const void* from;
        uint32_t bytes, group;
    };
    struct EmulatedThread {
        FiberContext context;
        uint3 index;
        ThreadState state;
        ExchangeRequest request; // while waiting for its warp
        CodeLocation where;
        std::unique_ptr<FiberStack> stack;
        std::vector<PendingCopy> copies;
        uint32_t groups;
        bool awaited; // await_predecessor was called
    };
    struct SharedSiteMemory {
        std::unique_ptr<char, void (*)(void*)> memory{nullptr, nullptr};
        size_t bytes = 0;
        uint64_t used_in = 0;
    };
    enum class ThreadOrder : uint8_t { natural, random, newest_first };

    static void enter();
    void prepare_threads();
    void schedule();
    bool has_ready() const { return ready_from_ < ready_.size(); }
    uint32_t pick();
    void resume(uint32_t thread);
    void make_ready(uint32_t thread);
    void pause();
    void release_block();
    void release_warp(uint32_t first, uint32_t mask);
    void abandon();
    std::string deadlock() const;
    std::string name(uint32_t thread) const;
    void poison_dynamic();
    void complete_copies(EmulatedThread& thread, uint32_t groups_left);

    const KernelLaunch* grid_ = nullptr;
    uint3 index_{};
    uint32_t count_ = 0, current_ = 0, returned_ = 0, at_barrier_ = 0;
    uint64_t epoch_ = 0; // counts blocks, so that static shared memory detects a new one
    uint32_t static_bytes_ = 0;
    SplitMix64 random_{0};
    ThreadOrder order_ = ThreadOrder::natural;
    Failure failure_;
    FiberContext scheduler_;
    std::vector<EmulatedThread> threads_ = std::vector<EmulatedThread>(threads_max);
    std::vector<std::unique_ptr<FiberStack>> stacks_; // unused
    std::vector<uint32_t> ready_;
    size_t ready_from_ = 0;
    uint32_t next_ = threads_max; // already picked, if below threads_max
    std::array<uint32_t, threads_max / 32> waiting_{}; // lanes waiting for their warp
    std::vector<SharedSiteMemory> sites_;
    std::unique_ptr<char, void (*)(void*)> dynamic_{nullptr, nullptr};
    size_t dynamic_bytes_ = 0;
};

} // namespace cuda_host
