// Barriers of blocks and warps, and what happens when they cannot be passed.
#include <cstdio>
#include <cstring>

#include "block.hpp"

namespace cuda_host {

namespace {

/// What a lane reads from one that takes no part.
constexpr uint64_t poison = 0xbadbadbadbadbadb;

bool same_place(const Where& a, const Where& b) {
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

void wait_for_block(Where where) { here().wait_for_block(where); }

uint64_t wait_for_warp(Exchange what, uint32_t mask, uint64_t value, uint32_t source, Where where) {
    return here().wait_for_warp(what, mask, value, source, where);
}

void Block::wait_for_block(Where where) {
    Thread& thread = threads_[current_];
    thread.state = State::waits_for_block, thread.where = where;
    at_barrier_++;
    if (at_barrier_ + returned_ == count_) release_block();
    pause();
}

void Block::release_block() {
    at_barrier_ = 0;
    const Where* first = nullptr;
    for (uint32_t i = 0; i < count_; i++) {
        if (threads_[i].state != State::waits_for_block) continue;
        if (!first) first = &threads_[i].where;
        // The device would let this pass, or not: CUDA asks for one barrier for all.
        if (!same_place(*first, threads_[i].where)) {
            failure_ = {719, deadlock()};
            return;
        }
    }
    for (uint32_t i = 0; i < count_; i++) {
        if (threads_[i].state == State::waits_for_block) make_ready(i);
    }
}

uint64_t Block::wait_for_warp(Exchange what, uint32_t mask, uint64_t value, uint32_t source,
                              Where where) {
    const uint32_t lane = current_ % 32, first = current_ - lane;
    if ((mask >> lane & 1) == 0) {
        fail(719, format("mask %08x at %s:%u does not name lane %u, which calls", mask,
                         where.file_name(), where.line(), lane));
    }
    Thread& thread = threads_[current_];
    thread.state = State::waits_for_warp;
    thread.what = what, thread.mask = mask, thread.value = value, thread.source = source;
    thread.where = where;
    // Lanes beyond the block's end do not exist; the device ignores them too.
    const uint32_t lanes = count_ - first;
    const uint32_t existing = lanes < 32 ? mask & ((1u << lanes) - 1) : mask;
    bool complete = true;
    for (uint32_t l = 0; l < 32 && complete; l++) {
        if ((existing >> l & 1) == 0) continue;
        const Thread& other = threads_[first + l];
        complete = other.state == State::waits_for_warp && other.mask == mask && other.what == what;
    }
    if (complete) release_warp(first, existing);
    pause();
    return thread.value;
}

/// All lanes of `mask` have come: computes what each gets, and lets them go.
void Block::release_warp(uint32_t first, uint32_t mask) {
    uint64_t values[32], ballot = 0;
    for (uint32_t l = 0; l < 32; l++) {
        values[l] = mask >> l & 1 ? threads_[first + l].value : poison;
        if (mask >> l & 1 && values[l] != 0) ballot |= uint64_t(1) << l;
    }
    for (uint32_t l = 0; l < 32; l++) {
        if ((mask >> l & 1) == 0) continue;
        Thread& thread = threads_[first + l];
        if (thread.what == Exchange::value) thread.value = values[thread.source % 32];
        if (thread.what == Exchange::ballot) thread.value = ballot;
        make_ready(first + l);
    }
}

/// Who waits where: runs of threads with the same state, place and mask.
std::string Block::deadlock() const {
    const uint3 b = index_;
    std::string text = format("kernel %s, block (%u, %u, %u): threads wait for each other:",
                              grid_->kernel->name.c_str(), b.x, b.y, b.z);
    auto same = [&](const Thread& x, const Thread& y) {
        if (x.state != y.state) return false;
        if (x.state == State::returned || x.state == State::ready) return true;
        if (x.state == State::waits_for_warp && x.mask != y.mask) return false;
        return same_place(x.where, y.where);
    };
    for (uint32_t from = 0, runs = 0; from < count_; runs++) {
        uint32_t to = from + 1;
        while (to < count_ && same(threads_[from], threads_[to])) to++;
        if (runs == 16) return text + " and so on";
        const Thread& t = threads_[from];
        text += format("%s threads %u to %u ", runs ? ";" : "", from, to - 1);
        if (t.state == State::returned) text += "returned";
        if (t.state == State::ready) text += "run";
        if (t.state == State::waits_for_block) text += "wait for the block";
        if (t.state == State::waits_for_warp) text += format("wait for lanes %08x", t.mask);
        if (t.state == State::waits_for_block || t.state == State::waits_for_warp) {
            text += format(" at %s:%u", t.where.file_name(), t.where.line());
        }
        from = to;
    }
    return text;
}

} // namespace cuda_host
