#include "block.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace cuda_host {

namespace {
constinit thread_local Block* running = nullptr;
} // namespace

Block* Block::here() { return running; }

Failure Block::run(const KernelLaunch& grid, uint3 index, uint64_t number) {
    grid_ = &grid, index_ = index;
    count_ = grid.block.x * grid.block.y * grid.block.z;
    returned_ = at_barrier_ = static_bytes_ = 0;
    epoch_++;
    failure_ = {};
    random_ = {mix(grid.seed, number)};
    order_ = ThreadOrder::natural;
    if (grid.seed != 0) {
        order_ = random_.below(3) == 0 ? ThreadOrder::newest_first : ThreadOrder::random;
    }
    running = this;
    blockIdx = index, blockDim = grid.block, gridDim = grid.grid;
    poison_dynamic();
    prepare_threads();
    schedule();
    running = nullptr;
    return std::move(failure_);
}

void Block::prepare_threads() {
    const dim3 dim = grid_->block;
    ready_.clear();
    ready_from_ = 0;
    next_ = threads_max;
    waiting_.fill(0);
    for (uint32_t i = 0; i < count_; i++) {
        EmulatedThread& thread = threads_[i];
        thread.index = {i % dim.x, i / dim.x % dim.y, i / (dim.x * dim.y)};
        thread.state = ThreadState::ready;
        thread.groups = 0;
        thread.awaited = false;
        thread.copies.clear();
        ready_.push_back(i);
    }
}

void Block::schedule() {
    while (failure_.code == 0 && (next_ < threads_max || has_ready())) {
        resume(next_ < threads_max ? std::exchange(next_, threads_max) : pick());
    }
    if (failure_.code == 0 && returned_ < count_) failure_ = {719, deadlock()};
    if (failure_.code != 0) abandon();
}

/// Picks a ready thread. newest_first lets one warp run far ahead of the others.
uint32_t Block::pick() {
    const auto waiting = uint32_t(ready_.size() - ready_from_);
    uint32_t at = 0;
    if (order_ == ThreadOrder::natural) {
        const uint32_t thread = ready_[ready_from_++];
        if (ready_from_ == ready_.size()) ready_.clear(), ready_from_ = 0;
        return thread;
    }
    if (order_ == ThreadOrder::newest_first && random_.below(8) != 0) at = waiting - 1;
    else at = random_.below(waiting);
    std::swap(ready_[ready_from_ + at], ready_.back());
    const uint32_t thread = ready_.back();
    ready_.pop_back();
    return thread;
}

void Block::resume(uint32_t index) {
    EmulatedThread& thread = threads_[index];
    if (!thread.stack) {
        if (stacks_.empty()) stacks_.push_back(std::make_unique<FiberStack>());
        thread.stack = std::move(stacks_.back());
        stacks_.pop_back();
        prepare(thread.context, *thread.stack, &Block::enter);
    }
    current_ = index;
    threadIdx = thread.index;
    switch_context(scheduler_, thread.context);
    // Other threads may have run since. A returned one passes its warm stack on.
    EmulatedThread& last = threads_[current_];
    if (last.state != ThreadState::returned) return;
    last.stack->forget(4096);
    stacks_.push_back(std::move(last.stack));
}

void Block::enter() {
    Block& block = *running;
    arrived(block.scheduler_);
    block.grid_->kernel->call(block.grid_->arguments);
    EmulatedThread& thread = block.threads_[block.current_];
    if (block.grid_->early && !thread.awaited) {
            block.fail(710, "was launched to start early but did not call await_predecessor");
    }
    block.complete_copies(thread, 0);
    thread.state = ThreadState::returned;
    block.returned_++;
    // Returned threads no longer count for barriers.
    if (block.at_barrier_ != 0 && block.at_barrier_ + block.returned_ == block.count_) {
        block.release_block();
    }
    switch_context(thread.context, block.scheduler_, true);
    __builtin_unreachable();
}

void Block::make_ready(uint32_t thread) {
    threads_[thread].state = ThreadState::ready;
    ready_.push_back(thread);
}

/// Switches to another thread: directly if it has started, else through the scheduler.
void Block::pause() {
    FiberContext& own = threads_[current_].context;
    if (failure_.code == 0 && has_ready()) {
        const uint32_t next = pick();
        if (next == current_) return;
        if (threads_[next].stack) {
            current_ = next;
            threadIdx = threads_[next].index;
            return switch_context(own, threads_[next].context);
        }
        next_ = next;
    }
    switch_context(own, scheduler_);
}

/// After a failure, discards the fibers' stacks without unwinding: kernels own no resources.
void Block::abandon() {
    for (uint32_t i = 0; i < count_; i++) {
        if (!threads_[i].stack) continue;
        threads_[i].stack->forget(FiberStack::bytes);
        stacks_.push_back(std::move(threads_[i].stack));
    }
}

void Block::fail(int code, std::string text) {
    failure_ = {code, name(current_) + ": " + std::move(text)};
    switch_context(threads_[current_].context, scheduler_, true);
    __builtin_unreachable();
}

std::string Block::name(uint32_t thread) const {
    const uint3 t = threads_[thread].index;
    return format("kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", grid_->kernel->name.c_str(),
                  index_.x, index_.y, index_.z, t.x, t.y, t.z);
}

std::string format(const char* pattern, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

void await_predecessor() {
    if (Block* block = Block::here()) block->await_predecessor();
}

void assertion_failed(const char* condition, CodeLocation where) {
    auto text = format("assertion %s failed at %s:%u", condition, where.file_name(), where.line());
    if (Block* block = Block::here()) block->fail(710, std::move(text));
    std::fprintf(stderr, "%s\n", text.c_str());
    std::abort();
}

} // namespace cuda_host
