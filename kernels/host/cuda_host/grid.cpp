// Runs the blocks of a grid on several OS threads, in an order that depends on the seed.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <thread>

#include "block.hpp"

namespace cuda_host {

namespace {

/// A permutation of 0 .. count - 1 without a table: odd multiples modulo a power of two.
class Permutation {
public:
    Permutation(uint64_t count, uint64_t seed) : count_(count), seed_(seed) {
        while (mask_ < count - 1) mask_ = mask_ << 1 | 1;
        SplitMix64 random{seed};
        factor_ = random.next() | 1, offset_ = random.next();
    }
    /// The number of steps; a step outside the range yields no block.
    uint64_t steps() const { return seed_ == 0 ? count_ : mask_ + 1; }
    bool at(uint64_t step, uint64_t& block) const {
        block = seed_ == 0 ? step : (step * factor_ + offset_) & mask_;
        return block < count_;
    }

private:
    uint64_t count_, seed_, mask_ = 0, factor_, offset_;
};

struct GridJob {
    const KernelLaunch& grid;
    Permutation order;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex lock;
    Failure failure;
};

void work(GridJob& job, Block& block) {
    const dim3 dim = job.grid.grid;
    for (;;) {
        const uint64_t step = job.next++;
        if (step >= job.order.steps() || job.failed) return;
        uint64_t number;
        if (!job.order.at(step, number)) continue;
        const uint3 index = {uint32_t(number % dim.x), uint32_t(number / dim.x % dim.y),
                             uint32_t(number / dim.x / dim.y)};
        Failure failure = block.run(job.grid, index, number);
        if (failure.code == 0) continue;
        std::lock_guard guard(job.lock);
        if (!job.failed) job.failure = std::move(failure), job.failed = true;
    }
}

/// OS threads that help run grids. They live as long as the process.
class HelperThreads {
public:
    explicit HelperThreads(unsigned count) : count_(count) {
        for (unsigned i = 0; i < count; i++) std::thread([this] { serve(); }).detach();
    }

    void run(GridJob& job, Block& own) {
        if (count_ == 0) return work(job, own);
        {
            std::lock_guard guard(lock_);
            job_ = &job, busy_ = count_, round_++;
        }
        wake_.notify_all();
        work(job, own);
        std::unique_lock guard(lock_);
        done_.wait(guard, [this] { return busy_ == 0; });
        job_ = nullptr;
    }

private:
    void serve() {
        auto block = std::make_unique<Block>();
        uint64_t seen = 0;
        std::unique_lock guard(lock_);
        for (;;) {
            wake_.wait(guard, [&] { return round_ != seen; });
            seen = round_;
            GridJob& job = *job_;
            guard.unlock();
            work(job, *block);
            guard.lock();
            if (--busy_ == 0) done_.notify_one();
        }
    }

    unsigned count_, busy_ = 0;
    uint64_t round_ = 0;
    GridJob* job_ = nullptr;
    std::mutex lock_;
    std::condition_variable wake_, done_;
};

unsigned threads() {
    if (const char* text = std::getenv("EMU_THREADS")) return unsigned(std::max(1, atoi(text)));
    return std::min(16u, std::max(1u, std::thread::hardware_concurrency()));
}

} // namespace

Failure run_grid(const KernelLaunch& grid) {
    // Never destroyed: helper threads may still wait while the process exits.
    static auto* helpers = new HelperThreads(threads() - 1);
    static auto* own = new Block;
    static std::mutex one_at_a_time;
    std::lock_guard guard(one_at_a_time);
    const uint64_t blocks = uint64_t(grid.grid.x) * grid.grid.y * grid.grid.z;
    GridJob job{.grid = grid, .order = {blocks, grid.seed}, .lock = {}, .failure = {}};
    if (blocks == 1) work(job, *own);
    else helpers->run(job, *own);
    return job.failure;
}

} // namespace cuda_host
