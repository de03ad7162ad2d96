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
struct Grid {
    const Kernel* kernel;
    dim3 grid, block;
    uint32_t dynamic_shared_bytes;
    uint32_t shared_bytes_max; // static and dynamic, after opting in
    const void* arguments;     // packed
    uint64_t seed;             // 0: threads and blocks run in natural order
    bool early;                // may start before the previous work in its stream has ended
};

/// Runs all blocks, several at a time; returns the first failure.
Failure run_grid(const Grid& grid);

/// Formats like printf.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

class Block {
public:
    static constexpr uint32_t threads_max = 1024;

    /// The block that runs on this OS thread, or null.
    static Block* here();

    /// Runs block `index` of the grid to its end or its first failure.
    Failure run(const Grid& grid, uint3 index, uint64_t number);

    void wait_for_block(Where where);
    void wait_for_warp(const Request& request, Where where);
    void await_predecessor() { threads_[current_].awaited = true; }
    [[noreturn]] void fail(int code, std::string text);

    void* static_shared(uint32_t site, size_t bytes, size_t align);
    void* dynamic_shared() { return dynamic_.get(); }

    void copy_async(void* to, const void* from, uint32_t bytes);
    void commit_copies();
    void wait_copies(uint32_t groups);

private:
    enum class State : uint8_t { ready, waits_for_block, waits_for_warp, returned };
    struct Copy {
        void* to;
        const void* from;
        uint32_t bytes, group;
    };
    struct Thread {
        Context context;
        uint3 index;
        State state;
        Request request; // while waiting for its warp
        Where where;
        std::unique_ptr<Stack> stack;
        std::vector<Copy> copies;
        uint32_t groups;
        bool awaited; // await_predecessor was called
    };
    struct Site {
        std::unique_ptr<char, void (*)(void*)> memory{nullptr, nullptr};
        size_t bytes = 0;
        uint64_t used_in = 0;
    };
    enum class Order : uint8_t { natural, random, newest_first };

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
    void land(Thread& thread, uint32_t groups_left);

    const Grid* grid_ = nullptr;
    uint3 index_{};
    uint32_t count_ = 0, current_ = 0, returned_ = 0, at_barrier_ = 0;
    uint64_t epoch_ = 0; // counts blocks, so that static shared memory detects a new one
    uint32_t static_bytes_ = 0;
    Random random_{0};
    Order order_ = Order::natural;
    Failure failure_;
    Context scheduler_;
    std::vector<Thread> threads_ = std::vector<Thread>(threads_max);
    std::vector<std::unique_ptr<Stack>> stacks_; // unused
    std::vector<uint32_t> ready_;
    size_t ready_from_ = 0;
    uint32_t next_ = threads_max; // already picked, if below threads_max
    std::array<uint32_t, threads_max / 32> waiting_{}; // lanes waiting for their warp
    std::vector<Site> sites_;
    std::unique_ptr<char, void (*)(void*)> dynamic_{nullptr, nullptr};
    size_t dynamic_bytes_ = 0;
};

} // namespace cuda_host
