// Barriers of blocks and warps, and detection of deadlocks.
#include <cstdio>
#include <cstring>

#include "block.hpp"

namespace cuda_host {

namespace {

/// Fills the result of a shuffle from a lane outside the mask.
constexpr int poison = 0xbd;

bool same_place(const CodeLocation& a, const CodeLocation& b) {
    return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

Block& here() {
    Block* block = Block::here();
    if (!block) {
        std::fprintf(stderr, "emulated driver: barrier outside a kernel\n");
        std::abort();
    }
    return *block;
}

} // namespace

void wait_for_block(CodeLocation where) { here().wait_for_block(where); }

void wait_for_warp(const ExchangeRequest& request, CodeLocation where) {
    here().wait_for_warp(request, where);
}

void Block::wait_for_block(CodeLocation where) {
    EmulatedThread& thread = threads_[current_];
    thread.state = ThreadState::waits_for_block, thread.where = where;
    at_barrier_++;
    if (at_barrier_ + returned_ == count_) release_block();
    pause();
}

void Block::release_block() {
    at_barrier_ = 0;
    const CodeLocation* first = nullptr;
    for (uint32_t i = 0; i < count_; i++) {
        if (threads_[i].state != ThreadState::waits_for_block) continue;
        if (!first) first = &threads_[i].where;
        // The device may let this pass, but CUDA requires all threads to use the same barrier.
        if (!same_place(*first, threads_[i].where)) {
            failure_ = {719, deadlock()};
            return;
        }
    }
    for (uint32_t i = 0; i < count_; i++) {
        if (threads_[i].state == ThreadState::waits_for_block) make_ready(i);
    }
}

void Block::wait_for_warp(const ExchangeRequest& request, CodeLocation where) {
    const uint32_t lane = current_ % 32, first = current_ - lane, mask = request.mask;
    if ((mask >> lane & 1) == 0) {
        fail(719, format("mask %08x at %s:%u does not include the calling lane %u", mask,
                         where.file_name(), where.line(), lane));
    }
    EmulatedThread& thread = threads_[current_];
    thread.state = ThreadState::waits_for_warp;
    thread.request = request;
    thread.where = where;
    // The device ignores lanes beyond the block's end, too.
    const uint32_t lanes = count_ - first;
    const uint32_t existing = lanes < 32 ? mask & ((1u << lanes) - 1) : mask;
    uint32_t& waiting = waiting_[first / 32];
    waiting |= 1u << lane;
    bool complete = (waiting & existing) == existing;
    for (uint32_t left = complete ? existing : 0; left != 0; left &= left - 1) {
        const ExchangeRequest& other = threads_[first + uint32_t(__builtin_ctz(left))].request;
        complete &=
            other.mask == mask && other.what == request.what && other.bytes == request.bytes;
    }
    if (complete) {
        waiting &= ~existing;
        release_warp(first, existing);
    }
    pause();
}

/// Completes the exchange, once all lanes of `mask` have arrived, and makes them ready.
void Block::release_warp(uint32_t first, uint32_t mask) {
    uint32_t ballot = 0;
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const auto lane = uint32_t(__builtin_ctz(left));
        const ExchangeRequest& request = threads_[first + lane].request;
        if (request.what != WarpExchange::ballot) break;
        ballot |= uint32_t(*static_cast<const uint32_t*>(request.value) != 0) << lane;
    }
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const uint32_t thread = first + uint32_t(__builtin_ctz(left));
        const ExchangeRequest& request = threads_[thread].request;
        if (request.what == WarpExchange::ballot) *static_cast<uint32_t*>(request.result) = ballot;
        if (request.what == WarpExchange::value) {
            const uint32_t source = request.source % 32;
            if (mask >> source & 1) {
                std::memcpy(request.result, threads_[first + source].request.value, request.bytes);
            } else {
                std::memset(request.result, poison, request.bytes);
            }
        }
        if (request.what == WarpExchange::all) {
            auto* result = static_cast<unsigned char*>(request.result);
            for (uint32_t lane = 0; lane < 32; lane++) {
                unsigned char* to = result + lane * request.bytes;
                if (mask >> lane & 1) {
                    std::memcpy(to, threads_[first + lane].request.value, request.bytes);
                } else {
                    std::memset(to, poison, request.bytes);
                }
            }
        }
        make_ready(thread);
    }
}

/// Describes a deadlock: runs of threads with the same state, location and mask.
std::string Block::deadlock() const {
    const uint3 b = index_;
    std::string text = format("kernel %s, block (%u, %u, %u): deadlock:",
                              grid_->kernel->name.c_str(), b.x, b.y, b.z);
    auto same = [&](const EmulatedThread& x, const EmulatedThread& y) {
        if (x.state != y.state) return false;
        if (x.state == ThreadState::returned || x.state == ThreadState::ready) return true;
        if (x.state == ThreadState::waits_for_warp && x.request.mask != y.request.mask) {
            return false;
        }
        return same_place(x.where, y.where);
    };
    for (uint32_t from = 0, runs = 0; from < count_; runs++) {
        uint32_t to = from + 1;
        while (to < count_ && same(threads_[from], threads_[to])) to++;
        if (runs == 16) return text + "; ...";
        const EmulatedThread& t = threads_[from];
        text += format("%s threads %u to %u ", runs ? ";" : "", from, to - 1);
        if (t.state == ThreadState::returned) text += "returned";
        if (t.state == ThreadState::ready) text += "run";
        if (t.state == ThreadState::waits_for_block) text += "wait for the block";
        if (t.state == ThreadState::waits_for_warp) {
            text += format("wait for lanes %08x", t.request.mask);
        }
        if (t.state == ThreadState::waits_for_block || t.state == ThreadState::waits_for_warp) {
            text += format(" at %s:%u", t.where.file_name(), t.where.line());
        }
        from = to;
    }
    return text;
}

} // namespace cuda_host
